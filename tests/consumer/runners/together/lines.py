"""A stand-in for the consumer of a retry line, and handlers for it, in a process of its own."""

import atexit
import logging
import os
import signal
import threading
from typing import Any, Self

from linear_retry import PermanentError

logger = logging.getLogger("shop")


class Line:
    """Calls its handler with itself, then runs until it is stopped."""

    def __init__(self) -> None:
        self._stopped = threading.Event()
        self.stops = 0

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        logger.info("stopped %d times", self.stops)
        logger.info("closed")

    def stop(self) -> None:
        self.stops += 1
        self._stopped.set()

    def run(self, handler: Any) -> None:
        handler(self)
        self._stopped.wait()

    async def run_async(self, handler: Any) -> None:
        await handler(self)
        self._stopped.wait()


class AnyLine:
    """A live line that takes any retry line."""

    def retry_line(self, create: Any) -> Any:
        return create()


class WrongError(Exception):
    """Cannot be made from what pickle keeps of it."""

    def __init__(self, one: int, two: int) -> None:
        super().__init__(f"{one} and {two}")


class OwnError(Exception):
    """A user's."""


def succeed(_: Line) -> None:
    logger.info("running")
    logger.debug("in detail")


async def succeed_async(line: Line) -> None:
    succeed(line)


def fail(_: Line) -> None:
    try:
        raise OwnError("declined")
    except OwnError as error:
        raise PermanentError("no", topic="orders", partition=1, offset=7) from error


def fail_beyond_pickle(_: Line) -> None:
    raise WrongError(1, 2)


def die(_: Line) -> None:
    os.kill(os.getpid(), signal.SIGKILL)


def leave(_: Line) -> None:
    os._exit(3)


def hang(_: Line) -> None:
    logger.info("running")
    threading.Event().wait()


def count_signals(line: Line) -> None:
    """Ctrl-C, and again."""
    os.kill(os.getpid(), signal.SIGINT)
    os.kill(os.getpid(), signal.SIGTERM)
    logger.info("stops: %d", line.stops)


def die_before_a_child(_: Line) -> None:
    """A forked child outlives it for a while, and holds all that it had open."""
    if os.fork() == 0:
        signal.alarm(20)
        signal.pause()
    os.kill(os.getpid(), signal.SIGKILL)


def log_in_a_fork(_: Line) -> None:
    """The child outlives it for a while."""
    if os.fork() == 0:
        logger.info("in a fork")
        signal.alarm(20)
        signal.pause()


def log_at_exit(_: Line) -> None:
    atexit.register(logger.info, "exiting")
    logger.info("running")


class _Logged:
    """Logs while it is sent, as a collection does that runs a `__del__`."""

    def __reduce__(self) -> Any:
        logger.info("while another is sent")
        return (str, ("logged",))


def log_while_logging(_: Line) -> None:
    logger.info("running", extra={"value": _Logged()})
