"""Follows the control topic: carries out operators' commands, and answers with their results."""

import math
import threading
from collections import deque
from collections.abc import Callable, Collection, Container, Iterable
from concurrent.futures import Future
from dataclasses import dataclass, field
from functools import partial
from typing import Any

from linear_retry import events
from linear_retry.consumer.operations.monitor import Monitor
from linear_retry.consumer.operations.operator_actions import OperatorActions
from linear_retry.consumer.ownership.requests import (
    EndPause,
    GiveUp,
    LiftLimit,
    OperatorRequest,
    PauseWish,
    Retry,
)
from linear_retry.consumer.settings.strategy_file import FileRules
from linear_retry.errors import BrokerError, LinearRetryError
from linear_retry.kafka import KafkaException, Message
from linear_retry.kafka.producers.journal import JournalProducer
from linear_retry.kafka.topics.tail import TopicTail
from linear_retry.log.lines import log_control_garbled, log_control_silent
from linear_retry.log.repeating import Repeating
from linear_retry.records.control import (
    COMMAND_TTL_MS,
    Answer,
    AnswerName,
    Command,
    Garbled,
    encode,
    read_control,
)
from linear_retry.records.record import OutgoingRecord, Record
from linear_retry.records.text import one_line
from linear_retry.retry.case import Held
from linear_retry.retry.clock import Clock
from linear_retry.scope import Partition, Place, Scope

_EACH_TURN = 100
_WAITING = 1_000
_LONGEST_ERROR = 255

_Failed = events.ProbeFailed | events.LimitReached | events.KeyBlocked | events.DeadLetterFailed

_WAIT_S = 0.25
_RENEW_AFTER_S = 30.0
_REPORT_EVERY_S = 60.0
_FLUSH_S = 1.0
# Commands sent before that have expired. Twice, for clocks that differ: a command that we take may
# be stamped that much ahead of our clock, and its answer that much behind the command.
_READ_BACK_MS = 2 * COMMAND_TTL_MS + 5_000
_KNOWN = 10_000
_CARRIED_OUT: tuple[AnswerName, ...] = ("paused", "ended")


@dataclass(slots=True)
class _Pending:
    """A command in progress; `left` are the circuits whose outcome is still open."""

    command: Command
    left: set[Scope] = field(default_factory=set)
    is_answered: bool = False


class RemoteCommands:
    """Queues commands from the control topic's thread; the owner thread carries them out.

    Each answer is recorded (`CommandAnswered`) before it can be sent. A retry is answered when its
    attempt begins, and again with the attempt's outcome, which is taken from its event.
    """

    def __init__(
        self,
        member: str,
        assignment: Container[Partition],
        operator_actions: OperatorActions,
        monitor: Monitor,
        *,
        gives_up: bool,
    ) -> None:
        """`member` is the sender of the answers; `gives_up`: there is a dead-letter topic."""
        self.member = member
        self._assignment = assignment
        self._operator_actions = operator_actions
        self._circuits = operator_actions.circuits
        self._requests = operator_actions.requests
        self._utc_ms = operator_actions.clock.utc_ms
        self._monitor = monitor
        self._listens = False
        self._gives_up = gives_up
        # No lock, as in `Requests`: append and popleft are atomic. Bounded, as anyone who can write
        # to the topic can write any number: neither memory nor a turn may grow with it.
        self._arrived: deque[Command] = deque(maxlen=_WAITING)
        self._answers: deque[Answer] = deque()
        self._orders: deque[Command] = deque()
        self._own: dict[str, Future[bool]] = {}
        self._closed = False
        self.due_at_s = math.inf
        self._works: dict[str, _Pending] = {}
        self._watched: dict[Scope, list[tuple[_Pending, Place]]] = {}

    def post(self, command: Command) -> None:
        """Queues a command for the next turn; beyond 1000 only the latest are kept."""
        self._arrived.append(command)
        self.due_at_s = -math.inf  # after the append, as the owner resets it before it reads

    def order(self, command: Command) -> Future[bool]:
        """Sends a command of this program to its group. For any thread.

        True once this member has carried it out too, False if it has refused.
        """
        asked: Future[bool] = Future()
        self._own[command.command_id] = asked
        self._orders.append(command)
        if self._closed:  # after that: whichever runs later, this or `close`, answers it
            self._refuse_orders()
        return asked

    def answers(self) -> list[Answer]:
        """Returns the answers to send, each once."""
        return [self._answers.popleft() for _ in range(len(self._answers))]

    def orders(self) -> list[Command]:
        """Returns the commands to send, each once."""
        return [self._orders.popleft() for _ in range(len(self._orders))]

    def close(self) -> None:
        """Answers what this program has ordered, and nobody carries out any more, with False."""
        self._closed = True
        self._refuse_orders()

    def tick(self) -> None:
        """Turns commands into requests or answers. Called once a turn, before requests are read."""
        self.due_at_s = math.inf
        for work in tuple(self._works.values()):
            if not work.is_answered:
                self._answer(work, "pending", is_final=False)
        for _ in range(min(len(self._arrived), _EACH_TURN)):
            self._begin(self._arrived.popleft())
        if self._arrived or self._works:
            self.due_at_s = -math.inf

    def _refuse_orders(self) -> None:
        for command_id in tuple(self._own):
            if (asked := self._own.pop(command_id, None)) is not None:
                asked.set_result(False)

    def _on_event(self, event: events.Event) -> None:
        """Answers with the outcome of an attempt."""
        match event:
            case events.ProbeFailed():
                self._failed("failed", event)
            case events.LimitReached():
                self._failed("held-back", event)
            case events.KeyBlocked():
                self._failed("blocked", event)
            case events.DeadLetterFailed():
                self._failed("not-sent", event)
            case events.CircuitClosed(scope, outcome):
                self._resolve(scope, outcome)
            case events.Revoked(partitions) | events.Lost(partitions):
                for scope, watched in tuple(self._watched.items()):
                    place = watched[0][1]
                    if (place.topic, place.partition) in partitions:
                        self._resolve(scope, "dropped")
            case events.Stopped():
                for scope in tuple(self._watched):
                    self._resolve(scope, "dropped")

    def _begin(self, command: Command) -> None:
        work, place = _Pending(command), command.place
        if place is not None and (place.topic, place.partition) not in self._assignment:
            return  # the member that has it answers
        if command.has_expired(self._utc_ms()):
            self._answer(work, "expired")
        elif command.command == "retry":
            self._retry(work)
        elif command.command == "give-up" and not self._gives_up:
            self._answer(work, "no-dead-letters")
        elif command.command == "lift-limit" and not self._operator_actions.has_limit:
            self._answer(work, "no-limit")
        elif command.command == "reload":
            self._reload(work)
        elif command.command == "open":
            pause = PauseWish(command.scope, command.until_ms, command.by, command.reason or "")
            self._works[command.command_id] = work
            self._requests.submit(pause).add_done_callback(partial(self._paused, work))
        elif command.command == "close":
            self._ask(work, EndPause(command.scope), "ended", "not-paused")
        elif place is not None:
            self._ask(work, GiveUp(_of(place)), "dead-lettered", "not-held")
        else:
            wish = LiftLimit(command.letters or None, command.reason or "")
            self._ask(work, wish, "lifted", "dropped")

    def _paused(self, work: _Pending, asked: Future[bool]) -> None:
        pause = self._circuits.by_hand.views.get(work.command.scope)
        if pause is None or not asked.result():
            self._answer(work, "dropped")
        else:  # until when, as it may not last as long as it was to
            until_ms = round(pause.until.timestamp() * 1000)
            self._answer(work, "paused", retry_at_ms=until_ms)

    def _reload(self, work: _Pending) -> None:
        rules = self._operator_actions.settings.rules
        if not isinstance(rules, FileRules):
            self._answer(work, "no-file")
            return
        event = rules.look()
        if event is not None:
            self._monitor.emit(event)
        now = rules.labels[:_LONGEST_ERROR]
        if rules.problem:
            error = one_line(rules.problem)[:_LONGEST_ERROR]
            self._answer(work, "refused", strategy=now, error=error)
        else:
            self._answer(work, "unchanged" if event is None else "reloaded", strategy=now)

    def _ask(
        self, work: _Pending, wish: OperatorRequest, done: AnswerName, refused: AnswerName
    ) -> None:
        self._works[work.command.command_id] = work
        # The owner thread answers requests, even at its end, so the event is emitted there.
        self._requests.submit(wish).add_done_callback(
            lambda asked: self._answer(work, done if asked.result() else refused)
        )

    def _retry(self, work: _Pending) -> None:
        circuits, place = self._circuits, work.command.place
        holding = None if place is None else circuits.holding(*_of(place))
        here = dict(circuits if place is None else [holding] if holding else [])
        if not here:
            self._answer(work, "none-open" if place is None else "not-held")
            return
        self._works[work.command.command_id] = work
        work.left = set(here)
        for scope, circuit in here.items():
            case, last = circuit.case, work.command.last
            if case is not None and not last and self._operator_actions.is_last(case):
                at, failures = _place(case.held), case.held.failures.count
                self._end(work, scope, "last-attempt", place=at, failures=failures)
            else:
                wish = Retry(scope if place is None else _of(place))
                self._requests.submit(wish).add_done_callback(partial(self._begun, work, scope))

    def _begun(self, work: _Pending, scope: Scope, asked: Future[bool]) -> None:
        circuit = self._circuits.get(scope)
        if not asked.result() or circuit is None:
            self._end(work, scope, "dropped" if work.command.place is None else "not-held")
        elif circuit.held is None:
            self._end(work, scope, "no-message")
        else:
            place = _place(circuit.held)
            self._answer(work, "begun", place, is_final=False)
            self._watched.setdefault(scope, []).append((work, place))
            if not self._listens:  # last: an answer may be sent only after its event is recorded
                self._monitor.listen(self._on_event)
                self._listens = True

    def _failed(self, answer: AnswerName, event: _Failed) -> None:
        failures = None if isinstance(event, events.DeadLetterFailed) else event.failures
        at_ms = None
        if not isinstance(event, events.KeyBlocked):
            at_ms = round(event.retry_at.timestamp() * 1000)
        error = one_line(event.error)[:_LONGEST_ERROR] or None
        self._resolve(event.scope, answer, failures=failures, retry_at_ms=at_ms, error=error)

    def _resolve(self, scope: Scope, answer: AnswerName, **details: Any) -> None:
        for work, place in self._watched.pop(scope, ()):
            self._end(work, scope, answer, place=place, **details)

    def _end(
        self,
        work: _Pending,
        scope: Scope,
        answer: AnswerName,
        *,
        place: Place | None = None,
        **details: Any,
    ) -> None:
        work.left.discard(scope)
        self._answer(work, answer, place, is_final=not work.left, **details)

    def _answer(
        self,
        work: _Pending,
        answer: AnswerName,
        place: Place | None = None,
        *,
        is_final: bool = True,
        **details: Any,
    ) -> None:
        command = work.command
        at: tuple[str | None, int | None, int | None] = place or command.place or (None,) * 3
        work.is_answered = True
        if is_final:
            self._works.pop(command.command_id, None)
        self._monitor.emit(
            events.CommandAnswered(*at, command.command, command.by, answer, command.command_id)
        )
        signed = command.command_id, self.member, answer, self._utc_ms()
        self._answers.append(Answer(*signed, is_final, *at, **details))
        if is_final and (asked := self._own.pop(command.command_id, None)) is not None:
            asked.set_result(answer in _CARRIED_OUT)


def _of(place: Place) -> tuple[Partition, int]:
    return (place.topic, place.partition), place.offset


def _place(held: Held[Message]) -> Place:
    return Place(*held.partition, held.offset)


class ControlTopicFollower:
    """Reads and writes the control topic in its own thread.

    The consumer never waits for it, except briefly at its end. Any trouble with the topic is logged
    at most once a minute, and retried.
    """

    def __init__(
        self,
        topic: str,
        groups: Collection[str],
        commands: RemoteCommands,
        clock: Clock,
        since: Callable[[int], TopicTail],
        writer: JournalProducer,
        *,
        group_pause_max_s: float,
        again_after_s: float = 5.0,
    ) -> None:
        """`groups` are the names of ours: a retry line has that of its live line, too.

        `since` reads the topic from a time on, in milliseconds of UTC.

        `again_after_s` is the wait after an error.
        """
        self._topic = topic
        self._groups = groups
        self._commands = commands
        self._clock = clock
        self._since = since
        self._writer = writer
        self._again_after_s = again_after_s
        # A pause may have begun that long ago, and is for those too who join the group meanwhile.
        self._read_back_ms = max(_READ_BACK_MS, round(group_pause_max_s * 1000))
        self._unposted: dict[str, Command] = {}
        self._known: deque[str] = deque(maxlen=_KNOWN)
        self._garbled = 0
        self._report_at_s = {"garbled": -math.inf, "silent": -math.inf}
        self._is_following = False
        self._is_first_reading = True
        self._thread = Repeating("control", lambda _: self.follow(), again_s=again_after_s)
        self._ending = threading.Event()
        self._ended = threading.Event()

    def start(self) -> None:
        self._thread.start()

    def close(self, timeout_s: float) -> None:
        """Sends the pending answers, within `timeout_s`, and ends."""
        self._thread.stop()
        self._ending.set()
        if self._is_following:  # else it may wait for brokers, in vain
            self._ended.wait(timeout_s)

    def follow(self) -> None:
        while not self._ending.is_set():
            try:
                self._follow_once()
            except (LinearRetryError, KafkaException) as error:
                self._is_following = False
                if self._may_log("silent"):
                    log_control_silent(self._topic, str(error))
                self._ending.wait(self._again_after_s)
        self._ended.set()

    def _follow_once(self) -> None:
        """Follows the topic until the close, or until an error that lasts.

        Commands of the last minute are still valid. Before any is carried out, the whole rest of
        the topic is read, to know which are answered already. What is for all members is done by
        those that were there when it was sent: we were not before our first reading. By the place
        in the topic, as clocks differ. But a pause is for those too who join before it is over: the
        topic is the group's memory of it.
        """
        self._is_following = False
        topic = self._since(self._clock.utc_ms() - self._read_back_ms)
        self._unposted.clear()
        for records in topic.backlog():
            self._handle(records)
        self._drop_old()
        if self._is_first_reading:
            self._pass_over_for_all()
            self._is_first_reading = False
        self._post()
        with topic.follow() as stream:
            self._is_following = True
            well_at_s = self._clock.now_s()
            while not self._ending.is_set():
                self._handle(stream.read(_WAIT_S))
                self._post()
                self._send()
                if stream.trouble is None:
                    well_at_s = self._clock.now_s()
                elif self._clock.now_s() - well_at_s > _RENEW_AFTER_S:
                    # A client may lose all brokers for good (librdkafka #5301).
                    raise BrokerError(stream.trouble)
            self._send()
            self._writer.flush(_FLUSH_S)
            self._ended.set()

    def _handle(self, records: Iterable[Record]) -> None:
        for record in records:
            match read_control(record.value):
                case Command() as command:
                    if command.group in self._groups and command.is_for(self._commands.member):
                        self._unposted[command.command_id] = command
                case Answer() as answer:
                    if answer.is_final and self._ends(answer):
                        self._is_new(answer.command_id)
                case Garbled(reason):
                    self._garbled += 1
                    if self._may_log("garbled"):
                        log_control_garbled(str(record.place), reason, self._garbled)

    def _drop_old(self) -> None:
        """Drops what expired long ago: only a pause may be in force for longer than a minute."""
        oldest_ms = self._clock.utc_ms() - _READ_BACK_MS
        for command in list(self._unposted.values()):
            if not command.is_standing and command.at_ms < oldest_ms:
                del self._unposted[command.command_id]

    def _pass_over_for_all(self) -> None:
        pauses: dict[Scope, str] = {}
        now_ms = self._clock.utc_ms()
        for command in self._unposted.values():
            if command.command == "open" and not command.has_expired(now_ms):
                pauses[command.scope] = command.command_id
            elif command.command == "close":
                for scope in list(filter(EndPause(command.scope).ends, pauses)):
                    del pauses[scope]
        for command in self._unposted.values():
            if command.place is None and command.command_id not in pauses.values():
                self._is_new(command.command_id)  # so that no later reading takes it

    def _ends(self, answer: Answer) -> bool:
        """Whether this answer completes the command for us: each member answers for itself."""
        command = self._unposted.get(answer.command_id)
        if command is not None and command.is_standing:
            return False  # it may have been answered by an earlier life of this member
        return (
            command is None or command.place is not None or answer.member == self._commands.member
        )

    def _post(self) -> None:
        for command in self._unposted.values():
            if self._is_new(command.command_id):
                self._commands.post(command)
                if command.place is None:
                    self._acknowledge(command)
        self._unposted.clear()

    def _acknowledge(self, command: Command) -> None:
        """Acknowledges before the handler returns: the sender learns for whom to wait."""
        now_ms = self._clock.utc_ms()
        heard = Answer(command.command_id, self._commands.member, "heard", now_ms, is_final=False)
        self._write(heard)

    def _write(self, said: Command | Answer) -> None:
        key, value = said.command_id.encode(), encode(said)
        self._writer.send(OutgoingRecord(self._topic, key, value, timestamp_ms=said.at_ms))

    def _is_new(self, command_id: str) -> bool:
        """Whether this command was not seen before. Marks it as seen."""
        if command_id in self._known:
            return False
        self._known.append(command_id)
        return True

    def _send(self) -> None:
        for command in self._commands.orders():
            self._write(command)
        for answer in self._commands.answers():
            self._write(answer)

    def _may_log(self, what: str) -> bool:
        now_s = self._clock.now_s()
        if now_s < self._report_at_s[what]:
            return False
        self._report_at_s[what] = now_s + _REPORT_EVERY_S
        return True
