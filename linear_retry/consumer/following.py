"""Who brings an operator's commands from the control topic, and takes the answers back?"""

from __future__ import annotations

import math
import threading
from collections.abc import Callable, Iterable
from typing import Protocol

from linear_retry.consumer.clock import Clock
from linear_retry.consumer.commands import Commands
from linear_retry.control import LIVES_MS, Answer, Command, Garbled, encode, read_control
from linear_retry.dead_letter import Record as Read
from linear_retry.errors import LinearRetryError
from linear_retry.kafka.journal_producer import Record
from linear_retry.log import log_control_garbled, log_control_silent

_WAIT_S = 0.25
_AGAIN_AFTER_S = 5.0
_CHECK_EVERY_S = 30.0
_SAY_EVERY_S = 60.0
_FLUSH_S = 1.0
# A command is at most this long in the topic before it is too late for it, clocks included.
_LOOK_BACK_MS = LIVES_MS + 5_000
_KNOWN = 10_000


class Reader(Protocol):
    """The control topic, from a moment on."""

    @property
    def is_caught_up(self) -> bool: ...

    def begin(self, since_ms: int | None) -> None: ...

    def take(self, wait_s: float) -> list[Read]: ...

    def check(self) -> None: ...

    def close(self) -> None: ...


class Writer(Protocol):
    """What is handed over is written at some time, or never."""

    def send(self, record: Record) -> None: ...

    def flush(self, timeout_s: float) -> None: ...


class Follower:
    """A thread of its own, which the consumer never waits for, but shortly at its end.

    Whatever is wrong with the topic is said in the log, at most once a minute, and tried again.
    """

    def __init__(
        self,
        topic: str,
        group: str,
        commands: Commands,
        clock: Clock,
        reader: Callable[[], Reader],
        writer: Writer,
    ) -> None:
        """`reader` makes one; that may raise `LinearRetryError`, as all that it does."""
        self._topic = topic
        self._group = group
        self._commands = commands
        self._clock = clock
        self._make = reader
        self._writer = writer
        self._reader: Reader | None = None
        self._follows = False
        self._check_at_s = math.inf
        self._unposted: list[Command] = []
        self._known: dict[str, None] = {}
        self._garbled = 0
        self._say_at_s = {"garbled": -math.inf, "silent": -math.inf}
        self._ending = threading.Event()
        self._ended = threading.Event()

    # -- for the owner ---------------------------------------------------------------------------

    def start(self) -> None:
        threading.Thread(target=self._follow, name="linear_retry control", daemon=True).start()

    def close(self, timeout_s: float) -> None:
        """What is answered by now is sent, if that takes no longer."""
        self._ending.set()
        if self._follows:  # else it waits for brokers, and nobody would hear it
            self._ended.wait(timeout_s)

    # -- for the thread --------------------------------------------------------------------------

    def step(self) -> bool:
        """Hand over what has come, and send what is answered. False: the topic is out of reach."""
        try:
            reader = self._reader or self._begun()
            self._hear(reader.take(_WAIT_S))
            if reader.is_caught_up:
                self._post()
            if self._clock.now_s() >= self._check_at_s:
                self._check_at_s = self._clock.now_s() + _CHECK_EVERY_S
                reader.check()
        except LinearRetryError as error:
            self._leave()
            if self._may_say("silent"):
                log_control_silent(self._topic, str(error))
        self._send()
        return self._follows

    def _follow(self) -> None:
        while not self._ending.is_set():
            if not self.step():
                self._ending.wait(_AGAIN_AFTER_S)
        self._send()
        self._writer.flush(_FLUSH_S)
        self._ended.set()
        self._leave()

    def _begun(self) -> Reader:
        """Commands of the last minute are for us still: what is answered must be known first."""
        reader = self._reader = self._make()
        reader.begin(self._clock.utc_ms() - _LOOK_BACK_MS)
        self._check_at_s = self._clock.now_s() + _CHECK_EVERY_S
        self._follows = True
        return reader

    def _leave(self) -> None:
        reader, self._reader, self._follows = self._reader, None, False
        self._unposted.clear()  # they are read again
        if reader is not None:
            reader.close()

    def _hear(self, records: Iterable[Read]) -> None:
        for record in records:
            match read_control(record.value):
                case Command() as command:
                    if command.group == self._group:
                        self._unposted.append(command)
                case Answer() as answer:
                    if answer.is_final:
                        self._is_new(answer.command_id)
                case Garbled(reason):
                    self._garbled += 1
                    if self._may_say("garbled"):
                        place = f"{self._topic}[{record.partition}]@{record.offset}"
                        log_control_garbled(place, self._garbled, reason)

    def _post(self) -> None:
        for command in self._unposted:
            if self._is_new(command.command_id):
                self._commands.post(command)
        self._unposted.clear()

    def _is_new(self, command_id: str) -> bool:
        """Whether it was not dealt with before. To be asked once."""
        if command_id in self._known:
            return False
        self._known[command_id] = None
        if len(self._known) > _KNOWN:
            del self._known[next(iter(self._known))]
        return True

    def _send(self) -> None:
        for answer in self._commands.answers():
            self._writer.send(Record(answer.command_id.encode(), encode(answer), answer.at_ms))

    def _may_say(self, what: str) -> bool:
        now_s = self._clock.now_s()
        if now_s < self._say_at_s[what]:
            return False
        self._say_at_s[what] = now_s + _SAY_EVERY_S
        return True
