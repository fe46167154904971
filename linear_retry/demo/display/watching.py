"""Draws a display from a thread while the main thread consumes."""

import logging
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager
from threading import Event, Thread
from typing import Protocol, TypeAlias

from linear_retry.demo.record import Record
from linear_retry.retry.circuits import CircuitView
from linear_retry.scope import Scope

Circuits: TypeAlias = Callable[[], Mapping[Scope, CircuitView]]
"""Returns a snapshot of the consumer's circuits."""


class Display(AbstractContextManager["Display"], Protocol):
    """Something that shows the state of the run."""

    def draw(self) -> None: ...


MakeDisplay: TypeAlias = Callable[[Record, Circuits], Display]
"""Creates the display of a run from its record and the circuits."""


@contextmanager
def watching(display: Display, give_up: Callable[[], None], every_s: float = 0.1) -> Iterator[None]:
    """Draws from a thread inside the `with`, and once more at the end.

    If drawing fails (a closed pipe), `give_up` is called, and the error is raised when the `with`
    ends.
    """
    ended = Event()
    errors: list[OSError] = []

    def draw_until_the_end() -> None:
        try:
            while not ended.wait(every_s):
                display.draw()
        except OSError as error:
            errors.append(error)
            give_up()

    thread = Thread(target=draw_until_the_end, name="screen", daemon=True)
    with display:
        thread.start()
        try:
            yield
        finally:
            ended.set()
            thread.join()
            if not errors:
                display.draw()
    if errors:
        raise errors[0]


@contextmanager
def without_log_lines() -> Iterator[None]:
    """Keeps the consumer's log off stderr, where it would spoil the display; handlers stay."""
    logger, silence = logging.getLogger("linear_retry"), logging.NullHandler()
    logger.addHandler(silence)
    try:
        yield
    finally:
        logger.removeHandler(silence)
