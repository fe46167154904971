"""Gives each measurement a process of its own."""

from __future__ import annotations

import multiprocessing
from collections.abc import Callable
from multiprocessing.connection import Connection
from typing import Any, Generic, TypeVar

LIMIT_S = 900.0

# Not forked: librdkafka's threads are not in a forked child, and its memory would be ours.
CONTEXT = multiprocessing.get_context("spawn")

T = TypeVar("T")


class Child(Generic[T]):
    """Runs `measure(*arguments)`, a function of a module, in a fresh process, from now on."""

    def __init__(
        self, measure: Callable[..., T], *arguments: object, has_children: bool = False
    ) -> None:
        """`has_children`: it starts processes itself, which a daemon must not."""
        self._name = measure.__qualname__
        self._answers, sender = CONTEXT.Pipe(duplex=False)
        self._process = CONTEXT.Process(
            target=_answer,
            args=(sender, measure, arguments),
            name=self._name,
            daemon=not has_children,
        )
        self._process.start()
        sender.close()  # the child's copy is the last one: its end is then seen here

    def result(self) -> T:
        """What it returned; raises where it ended otherwise, or not within `LIMIT_S`."""
        if not self._answers.poll(LIMIT_S):
            self._process.kill()
            raise AssertionError(f"{self._name} has not ended within {LIMIT_S:g} s")
        try:
            answer: T = self._answers.recv()
        except EOFError:
            raise AssertionError(f"{self._name} failed: its traceback is above") from None
        self._process.join()
        return answer


def in_child(measure: Callable[..., T], *arguments: object) -> T:
    """`measure(*arguments)` in a fresh process, awaited."""
    return Child(measure, *arguments).result()


def _answer(sender: Connection[Any, Any], measure: Callable[..., Any], arguments: Any) -> None:
    sender.send(measure(*arguments))
