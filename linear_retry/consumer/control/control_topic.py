"""Follows the control topic: passes commands on, and writes the answers to them."""

import math
import threading
from collections import deque
from collections.abc import Callable, Collection, Iterable

from linear_retry.consumer.control.remote_commands import RemoteCommands
from linear_retry.consumer.ownership.requests import EndPause
from linear_retry.errors import BrokerError, LinearRetryError
from linear_retry.kafka import KafkaException
from linear_retry.kafka.producers.journal import JournalProducer
from linear_retry.kafka.topics.tail import TopicTail
from linear_retry.log.lines import log_control_garbled, log_control_silent
from linear_retry.log.repeating import Repeating
from linear_retry.records.control import (
    COMMAND_TTL_MS,
    Answer,
    Command,
    Garbled,
    encode,
    read_control,
)
from linear_retry.records.record import OutgoingRecord, Record
from linear_retry.retry.clock import Clock
from linear_retry.scope import Scope

_WAIT_S, _PROMPT_S = 0.25, 0.02
_RENEW_AFTER_S = 30.0
_REPORT_EVERY_S = 60.0
_FLUSH_S = 1.0
# Commands sent before that have expired. Twice, for clocks that differ: a command that we take may
# be stamped that much ahead of our clock, and its answer that much behind the command.
_READ_BACK_MS = 2 * COMMAND_TTL_MS + 5_000
_KNOWN = 10_000


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
        is_prompt: bool = False,
        again_after_s: float = 5.0,
    ) -> None:
        """`groups` are the names of ours: a retry line has that of its live line, too.

        `since` reads the topic from a time on, in milliseconds of UTC.

        `again_after_s` is the wait after an error. `is_prompt`: what is to be sent is sent within
        milliseconds.
        """
        self._topic = topic
        self._groups = groups
        self._commands = commands
        self._clock = clock
        self._since = since
        self._writer = writer
        self._again_after_s = again_after_s
        self._is_prompt = is_prompt
        self._wait_s = _PROMPT_S if is_prompt else _WAIT_S
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
        if self._is_prompt:
            self._writer.check()  # it connects now, and not with the first word of an outage
        with topic.follow() as stream:
            self._is_following = True
            well_at_s = self._clock.now_s()
            while not self._ending.is_set():
                self._handle(stream.read(self._wait_s))
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
            if command.is_announcement:
                continue  # they are a history, which says who probes now
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
                if command.place is None and not command.is_announcement:
                    self._acknowledge(command)
        self._unposted.clear()

    def _acknowledge(self, command: Command) -> None:
        """Acknowledges before the handler returns: the sender learns for whom to wait."""
        now_ms = self._clock.utc_ms()
        heard = Answer(command.command_id, self._commands.member, "heard", now_ms, is_final=False)
        self._write(heard)

    def _write(self, said: Command | Answer) -> None:
        # What members announce is in one partition, whose order says which of them was first.
        key = said.command_id
        if isinstance(said, Command) and said.is_announcement:
            key = said.group
        record = OutgoingRecord(self._topic, key.encode(), encode(said), timestamp_ms=said.at_ms)
        self._writer.send(record)

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
