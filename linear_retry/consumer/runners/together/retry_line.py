"""Runs the retry line in a process of its own, and what that tells the one that started it."""

import asyncio
import atexit
import itertools
import os
import pickle
import signal
import threading
import traceback
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from multiprocessing.connection import Connection
from queue import SimpleQueue
from typing import Any, Self, TypeAlias

from linear_retry.consumer.linear_consumer import LinearConsumer
from linear_retry.consumer.ownership.stop import SIGNALS
from linear_retry.consumer.settings.retry_topics import RetryTopics
from linear_retry.errors import ConfigurationError, RetryLineError
from linear_retry.log.relay import relay_logs
from linear_retry.records.text import guarded

STOP = b"stop"
"""Sent to it, once for each time that the live line was asked to stop."""
_MOST_WAITING, _TOLD_EVERY = 10_000, 1_000
LOOK_EVERY_S = 1.0

RetryLine: TypeAlias = Callable[[], LinearConsumer]
"""A function that creates the retry line where it will run."""


def is_child_of(parent: int) -> bool:
    """Whether this process still is a child of that one, which else has died."""
    return os.name == "nt" or os.getppid() == parent  # Windows keeps the number


@dataclass(frozen=True, slots=True)
class Begun:
    """The program was imported, and the line runs from here on."""


@dataclass(frozen=True, slots=True)
class Ended:
    """The line has ended, for a stop or with an error."""

    error: BaseException | None = None
    cause: BaseException | None = None


@dataclass(frozen=True, slots=True)
class Dropped:
    """So many log records were not sent, since too many were waiting."""

    count: int


class Outgoing:
    """Sends messages through a pipe from a thread of its own: a slow reader stops nobody else.

    For any thread, and also while that thread sends one: sending allocates, and a collection may
    run a `__del__` that logs. A lock would be waited for by its own holder.
    """

    def __init__(self, connection: Connection, parent: int) -> None:
        """`parent` is the process that reads the other end of `connection`."""
        self._connection = connection
        self._is_broken = False
        self._begin(parent)
        if hasattr(os, "register_at_fork"):  # Windows has no fork
            os.register_at_fork(after_in_child=lambda: self._begin(os.getppid()))

    def send(self, message: object) -> None:
        """Sends it soon. Drops it, and counts that, if too many wait already."""
        if self._waiting.qsize() < _MOST_WAITING:
            self._waiting.put(pickle.dumps(message))
        else:
            self._dropped += 1

    def send_last(self, message: object) -> bool:
        """Sends it whatever waits, and then does as `flush`."""
        self._waiting.put(pickle.dumps(message))
        return self.flush()

    def flush(self) -> bool:
        """Returns once all before is sent; False: the reader is gone."""
        is_reached = threading.Event()
        self._waiting.put(is_reached)
        while not is_reached.wait(LOOK_EVERY_S):
            # The pipe may be full, and stay open although its reader has died: a fork holds it.
            if not is_child_of(self._parent):
                return False
        return not self._is_broken

    def _begin(self, parent: int) -> None:
        """Begins to send; also in the child of a fork, which has no thread of its parent's."""
        self._parent = parent
        self._dropped = 0
        self._waiting: SimpleQueue[bytes | threading.Event] = SimpleQueue()
        threading.Thread(target=self._run, name="linear_retry relay", daemon=True).start()

    def _run(self) -> None:
        told = 0
        for number in itertools.count(1):
            message = self._waiting.get()
            if isinstance(message, bytes):
                self._write(message)
            # Now and then also where the queue is never empty: it may be full for hours.
            is_time = number % _TOLD_EVERY == 0 or self._waiting.empty()
            if self._dropped > told and is_time:
                dropped, told = Dropped(self._dropped - told), self._dropped
                self._write(pickle.dumps(dropped))
            if isinstance(message, threading.Event):
                message.set()

    def _write(self, pickled: bytes) -> None:
        try:
            self._connection.send_bytes(pickled)
        except OSError:
            self._is_broken = True


def ended_with(error: BaseException) -> Ended:
    """An error with its traceback as a note, as pickle keeps neither that nor the cause."""
    trace = "".join(traceback.format_exception(error))
    cause = error.__cause__
    portable = _portable(error) or RetryLineError(f"the retry line ended with {_named(error)}")
    portable.add_note(f"In the process of the retry line:\n{trace}")
    return Ended(portable, None if cause is None else _portable(cause))


def _portable(error: BaseException) -> BaseException | None:
    """A copy as the other process will see it; None if pickle cannot make one."""
    try:
        copy = pickle.loads(pickle.dumps(error))
    except Exception:  # noqa: BLE001  (a user's exception may raise anything here)
        return None
    return copy if isinstance(copy, BaseException) else None


def _named(error: BaseException) -> str:
    name = type(error).__qualname__
    return f"{name}: {guarded(lambda: str(error), otherwise='its text cannot be read')}"


@dataclass(frozen=True, slots=True)
class LiveLine:
    """What the retry line has to agree with. `sends_to` is the prefix of the retry topics."""

    group_id: str
    sends_to: str | None
    has_inbox: bool

    @classmethod
    def of(cls, live: LinearConsumer) -> Self:
        """Raises `ConfigurationError` if it is a retry line."""
        config = live._config
        if config.reads_retries:
            raise _order_error()
        return cls(config.line.group_id, _prefix(live), config.inbox is not None)

    def retry_line(self, create: RetryLine) -> LinearConsumer:
        """Creates it. Raises `ConfigurationError` unless it is the retry line of the same group."""
        retry = create()
        if not isinstance(retry, LinearConsumer) or not retry._config.reads_retries:
            raise _order_error()
        config = retry._config
        if config.line.group_id != self.group_id:
            raise ConfigurationError(
                f"run_together: the live line is of group {self.group_id!r}, the retry line of "
                f"{config.line.group_id!r}; give both the same group.id"
            )
        reads = _prefix(retry)
        if self.sends_to is not None and self.sends_to != reads:
            raise ConfigurationError(
                f"run_together: the live line sends to {self.sends_to!r}, and the retry line reads "
                f"{reads!r}: what leaves the line would never come back; give both the same "
                "RetryTopics"
            )
        if (config.inbox is not None) != self.has_inbox:
            raise ConfigurationError(
                "run_together: one line has an inbox, and the other has none: they have one "
                "handler, which takes a transaction or does not; give both an Inbox of one database"
            )
        return retry


def _prefix(line: LinearConsumer) -> str | None:
    retries = line._config.retries
    return retries.prefix if isinstance(retries, RetryTopics) else None


def _order_error() -> ConfigurationError:
    return ConfigurationError(
        "run_together takes the live line, then a function that creates the retry line: the topics "
        "of the second are the RetryTopics to which the first sends"
    )


@dataclass(frozen=True, slots=True)
class Work:
    """What the retry line is given. `log_levels` are those of the program's loggers."""

    live: LiveLine
    retry: RetryLine
    handler: Callable[..., Any]
    is_async: bool
    log_levels: Mapping[str, int]


def serve(pickled: bytes, connection: Connection, parent: int) -> None:
    """The function of the process: runs the retry line, and says how it ended."""
    outgoing = Outgoing(connection, parent)
    atexit.register(outgoing.flush)
    try:
        stop = _StopOnce()
        _take_signals(stop)
        work: Work = pickle.loads(pickled)
        connection.send(Begun())  # at once: a handler may end the process
        relay_logs(outgoing.send, work.log_levels)
        consumer = work.live.retry_line(work.retry)
        stop.follow(consumer)
        watch = threading.Thread(target=_follow, args=(connection, parent, stop), daemon=True)
        watch.start()
        run_line(consumer, work)
        ended = Ended()
    except BaseException as error:  # noqa: BLE001  (the other process raises it)
        ended = ended_with(error)
    if not outgoing.send_last(ended):  # killed meanwhile: nobody is left to tell
        os._exit(1)


class _StopOnce:
    """The stops of one consumer. Ctrl-C in a terminal reaches this process and the other one.

    So the first stop comes twice; as a second one it would cancel an async handler.
    """

    def __init__(self) -> None:
        self._consumer: LinearConsumer | None = None
        self._asked = False

    def follow(self, consumer: LinearConsumer) -> None:
        self._consumer = consumer
        if self._asked:  # a signal came while the program was imported
            consumer.stop()

    def ask(self) -> None:
        """Stops the consumer, the first time."""
        asked, self._asked = self._asked, True
        if self._consumer is not None and not asked:
            self._consumer.stop()

    def force(self) -> None:
        """Stops it again: an async handler is cancelled."""
        if self._consumer is not None:
            self._consumer.stop()


def _take_signals(stop: _StopOnce) -> None:
    """From here on signals stop the consumer; they were blocked while the process started."""
    for number in SIGNALS:
        signal.signal(number, lambda *_: stop.ask())
    if hasattr(signal, "pthread_sigmask"):
        signal.pthread_sigmask(signal.SIG_UNBLOCK, SIGNALS)


def _follow(connection: Connection, parent: int, stop: _StopOnce) -> None:
    """Passes on the stops of the live line, until that ends or its process has died.

    The end of the pipe alone would not do: whatever the parent has forked may hold it open.
    """
    told = 0
    try:
        with suppress(EOFError, OSError):  # the live line's end of the pipe is gone
            while is_child_of(parent):
                if connection.poll(LOOK_EVERY_S):
                    connection.recv_bytes()
                    told += 1
                    (stop.ask if told == 1 else stop.force)()
    finally:  # nothing else would end it
        stop.ask()


def run_line(consumer: LinearConsumer, work: Work) -> None:
    """Runs the retry line, wherever this is called, until it is stopped; then closes it."""
    with consumer:
        if work.is_async:
            asyncio.run(consumer.run_async(work.handler))
        else:
            consumer.run(work.handler)
