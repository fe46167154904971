"""A process of its own that calls the handler of a program."""

from __future__ import annotations

import signal
from contextlib import suppress
from multiprocessing import get_context
from multiprocessing.connection import Connection, wait
from multiprocessing.process import BaseProcess
from types import TracebackType
from typing import Any, Self

from linear_retry.dlq.rehearsal.handling import Attempted, Program, Ready, serve
from linear_retry.errors import ConfigurationError
from linear_retry.records.record import Record
from linear_retry.records.text import ErrorText

_ENDED = "process ended"


class HandlerProcess:
    """Loads a program, and hands messages to its handler. Use it in a `with`.

    A handler that ends its process is a failure of its message; the next one has a new process.
    `group_id` is the consumer's.
    """

    group_id = ""

    def __init__(self, program: Program) -> None:
        self._program = program
        self._process: BaseProcess | None = None
        self._connection: Connection | None = None

    def __enter__(self) -> Self:
        """Loads the program. Raises `ConfigurationError` if it cannot be used."""
        self._start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._end()

    def attempt(self, record: Record) -> Attempted:
        """Calls the handler with the message, and returns what came of it."""
        if self._connection is None:
            self._start()
        if self._connection is not None:
            self._connection.send(record)
        answer = self._answer()
        if isinstance(answer, Attempted):
            return answer
        self._end()
        return Attempted(ErrorText(_ENDED, f"the handler's process {_how(answer)}", None))

    def _start(self) -> None:
        spawn = get_context("spawn")
        self._connection, theirs = spawn.Pipe()
        self._process = spawn.Process(
            target=serve,
            args=(theirs, self._program),
            name="linear_retry rehearsal",
            daemon=True,
        )
        self._process.start()
        theirs.close()
        answer = self._answer()
        if isinstance(answer, Ready):
            self.group_id = answer.group_id
            return
        self._end()
        if isinstance(answer, int):
            raise ConfigurationError(f"{self._program.make}: the process {_how(answer)}")
        raise ConfigurationError(answer.reason)

    def _answer(self) -> Any:
        """Returns what the process sends, or its exit code if it has ended without an answer."""
        connection, process = self._connection, self._process
        if connection is None or process is None:
            raise AssertionError("a handler's process is used in a `with`")
        # Not `recv` alone: what the handler has forked may hold the pipe open.
        wait([connection, process.sentinel])
        with suppress(EOFError):  # it has ended: its exit code is the answer
            if connection.poll():
                return connection.recv()
        process.join()
        return process.exitcode

    def _end(self) -> None:
        if self._connection is not None:
            self._connection.close()
        if self._process is not None:
            self._process.kill()
            self._process.join()
        self._connection = self._process = None


def _how(exit_code: int) -> str:
    if exit_code < 0:
        return f"was killed by {signal.Signals(-exit_code).name}"
    return f"ended with exit code {exit_code}"
