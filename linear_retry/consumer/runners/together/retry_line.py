"""Runs the retry line in a process of its own, which ends with that of the live line."""

import asyncio
import atexit
import os
import pickle
import signal
import threading
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from multiprocessing.connection import Connection
from typing import Any, Self, TypeAlias

from linear_retry.consumer.linear_consumer import LinearConsumer
from linear_retry.consumer.runners.signals import SIGNALS
from linear_retry.consumer.runners.together.messages import (
    LOOK_EVERY_S,
    Begun,
    Ended,
    Outgoing,
    ended_with,
    is_child_of,
)
from linear_retry.consumer.settings.retry_topics import RetryTopics
from linear_retry.errors import ConfigurationError
from linear_retry.log.relay import relay_logs

RetryLine: TypeAlias = Callable[[], LinearConsumer]
"""A function that creates the retry line where it will run."""


@dataclass(frozen=True, slots=True)
class LiveLine:
    """What the retry line has to agree with. `sends_to` is the prefix of the retry topics."""

    group_id: str
    sends_to: str | None

    @classmethod
    def of(cls, live: LinearConsumer) -> Self:
        """Raises `ConfigurationError` if it is a retry line."""
        config = live._config
        if config.reads_retries:
            raise _order_error()
        return cls(config.line.group_id, _prefix(live))

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
