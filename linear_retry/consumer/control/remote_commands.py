"""Carries out the commands of the control topic, and answers with their results."""

import math
from collections import deque
from collections.abc import Callable, Container
from concurrent.futures import Future
from dataclasses import dataclass, field
from functools import partial
from typing import Any

from linear_retry import events
from linear_retry.consumer.control.operator_actions import OperatorActions
from linear_retry.consumer.operations.monitor import Monitor
from linear_retry.consumer.ownership.requests import (
    EndPause,
    GiveUp,
    LiftLimit,
    OperatorRequest,
    PauseWish,
    Retry,
)
from linear_retry.consumer.settings.strategy_file import FileRules
from linear_retry.kafka import Message
from linear_retry.records.control import Answer, AnswerName, Command, short
from linear_retry.retry.case import Held
from linear_retry.scope import Partition, Place, Scope

_EACH_TURN = 100
_WAITING = 1_000

_Failed = events.ProbeFailed | events.LimitReached | events.KeyBlocked | events.DeadLetterFailed

_CARRIED_OUT: tuple[AnswerName, ...] = ("paused", "ended")


@dataclass(slots=True)
class _Pending:
    """A command in progress; `left` are the circuits whose outcome is still open."""

    command: Command
    left: set[Scope] = field(default_factory=set)
    is_answered: bool = False


def _nothing() -> None:
    """Workers, and not the owner thread, are busy with messages."""


class RemoteCommands:
    """Queues commands from the control topic's thread; the owner thread carries them out.

    Each answer is recorded (`CommandAnswered`) before it can be sent. A retry is answered when its
    attempt begins, and again with the attempt's outcome, which is taken from its event.

    `on_announcement` takes what members say to their group, and `on_post` is called, in any thread,
    once something is to be read.
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
        self.on_announcement: Callable[[Command], None] | None = None
        self.on_post: Callable[[], None] = _nothing
        self._works: dict[str, _Pending] = {}
        self._watched: dict[Scope, list[tuple[_Pending, Place]]] = {}

    def post(self, command: Command) -> None:
        """Queues a command for the next turn; beyond 1000 only the latest are kept."""
        self._arrived.append(command)
        self.due_at_s = -math.inf  # after the append, as the owner resets it before it reads
        self.on_post()

    def announce(self, command: Command) -> None:
        """Sends an announcement of this member to its group."""
        self._orders.append(command)

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
        if command.is_announcement:
            if self.on_announcement is not None:
                self.on_announcement(command)
            return
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
        pause = self._circuits.by_order.get("pause", work.command.scope)
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
        now = short(rules.labels)
        if rules.problem:
            error = short(rules.problem)
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
        error = short(event.error)
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
