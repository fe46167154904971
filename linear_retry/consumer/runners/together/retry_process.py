"""Starts the process of the retry line, stops it, and says how it ended."""

import os
import pickle
import signal
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from multiprocessing import current_process, get_context, resource_tracker
from typing import Any

from linear_retry.consumer.ownership.stop import SIGNALS
from linear_retry.consumer.runners.together.retry_line import (
    LOOK_EVERY_S,
    STOP,
    Begun,
    Dropped,
    Ended,
    Work,
    serve,
)
from linear_retry.errors import ConfigurationError, RetryLineError, UsageError
from linear_retry.log.lines import log_records_dropped
from linear_retry.log.relay import log_relayed

_REMEDY = (
    "define it at the top level of a module; or run the retry line in a thread (threads=True), or "
    "as a service of its own"
)


class RetryProcess:
    """The retry line, in a process that shares neither the interpreter's lock nor its memory.

    Spawned, not forked: a fork has none of librdkafka's threads, and whatever locks were held.
    """

    def __init__(self, work: Work) -> None:
        """Raises `ConfigurationError` and `UsageError` for what that process cannot be given."""
        self._pid = os.getpid()
        self._asked = False
        self._killed = False
        self._is_over = threading.Event()
        self._begun = False
        self._error: BaseException | None = None
        spawn = get_context("spawn")
        self._connection, self._theirs = spawn.Pipe()
        arguments = (_pickled(work), self._theirs, self._pid)
        self._process = spawn.Process(target=serve, args=arguments, name="linear_retry retry line")
        self._reader = threading.Thread(target=self._read, name="linear_retry retry line")
        self._reader.daemon = True

    def start(self, on_end: Callable[[], object]) -> None:
        """Starts the process; `on_end` is called if it ends before it was told to stop.

        Raises `UsageError` in a process that cannot have children.
        """
        if current_process().daemon:
            raise UsageError(
                "run_together was called in a daemonic process of multiprocessing, which cannot "
                "have children; start that with daemon=False, or run the retry line in a thread "
                "(threads=True)"
            )
        self._on_end = on_end
        with _signals_blocked():
            self._process.start()
            self._theirs.close()  # else the pipe would not end with the process
            self._reader.start()

    def stop(self) -> None:
        """Stops it; the second time an async handler is cancelled. Safe in signal handlers.

        Not in the child of a fork, which has this pipe too, and may close its copy of the consumer.
        """
        if os.getpid() == self._pid:
            self._asked = True
            self._send_stop()

    def end(self, within_s: float | None = None) -> BaseException | None:
        """Waits until it has ended, and returns the error. Kills it after that time, or Ctrl-C.

        What it had in hand is not done then, and is delivered again.
        """
        if self._reader.ident is None:  # the process could not be started
            return None
        if not self._asked:
            self.stop()
        # Not Thread.join: when interrupted, CPython 3.11 takes a living thread for ended (after the
        # fix of bpo-45274), and a process that is not killed keeps this one from exiting.
        try:
            self._is_over.wait(within_s)
        finally:
            if not self._is_over.is_set():
                self.kill()
                self._is_over.wait()
        return self._error

    def kill(self) -> None:
        self._killed = True
        self._process.kill()

    # -- in the thread that reads ------------------------------------------------------------

    def _read(self) -> None:
        ended: Ended | None = None
        try:
            ended = self._received()
        finally:
            self._error = self._how_it_died() if ended is None else _error_of(ended)
            if not self._asked:
                self._on_end()
            try:
                self._received()  # what it logs as it exits
                self._process.join()
                self._connection.close()
            finally:
                self._is_over.set()

    def _received(self) -> Ended | None:
        """Passes on its log records, until it says that it has ended; None: it has died.

        The end of the pipe alone would not say so: whatever it has forked may hold that open.
        """
        with suppress(EOFError, OSError):
            while self._connection.poll(LOOK_EVERY_S) or self._process.is_alive():
                if not self._connection.poll():
                    continue
                message: Any = self._connection.recv()
                match message:
                    case Ended():
                        return message
                    case Begun():
                        self._begun = True
                    case Dropped(count):
                        log_records_dropped(count)
                    case _:
                        log_relayed(message)
        return None

    def _how_it_died(self) -> RetryLineError:
        self._send_stop()  # it lives on if only its message could not be read
        self._process.join()
        who = f"the process of the retry line (pid {self._process.pid})"
        if self._killed:
            return RetryLineError(f"{who} did not end in time, and was killed")
        return RetryLineError(f"{who} {_died(self._process.exitcode or 0, self._begun)}")

    def _send_stop(self) -> None:
        with suppress(OSError):  # it has ended
            self._connection.send_bytes(STOP)


def _died(exit_code: int, begun: bool) -> str:
    if exit_code < 0:
        name = signal.Signals(-exit_code).name
        hint = (
            "if nobody did that, memory ran out: see the kernel's log"
            if name == "SIGKILL"
            else "stderr may say more"
        )
        return f"was killed by {name}; the live line has ended with it; {hint}"
    if begun:
        return f"ended with exit code {exit_code} and no error; the live line has ended with it"
    return (
        f"ended with exit code {exit_code} before it began; stderr says why; it "
        'imports the program, so call run_together under `if __name__ == "__main__":`'
    )


def _error_of(ended: Ended) -> BaseException | None:
    if ended.error is not None:
        ended.error.__cause__ = ended.cause
    return ended.error


def _pickled(work: Work) -> bytes:
    for name, value in (("handler", work.handler), ("retry", work.retry)):
        try:
            pickle.dumps(value)
        except Exception as error:  # a user's object may raise anything
            why = str(error) or type(error).__name__
            raise ConfigurationError(
                f"{name}={value!r}: cannot be pickled for another process ({why}); {_REMEDY}"
            ) from error
    pickled = pickle.dumps(work)
    main = sys.modules["__main__"]
    if b"__main__" in pickled and getattr(main, "__file__", None) is None:
        raise UsageError(
            f"handler={work.handler!r}: the retry line's process cannot import what was typed at a "
            f"prompt, or came from stdin; {_REMEDY}"
        )
    return pickled


@contextmanager
def _signals_blocked() -> Iterator[None]:
    """Ctrl-C while the process starts would end it with a traceback; it takes it once it can."""
    if not hasattr(signal, "pthread_sigmask"):
        yield
        return
    resource_tracker.ensure_running()  # started by the process's start, it would unblock them
    before = signal.pthread_sigmask(signal.SIG_BLOCK, SIGNALS)
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)
