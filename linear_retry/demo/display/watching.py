"""Draws a display from a thread while the main thread consumes."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from threading import Event, Thread
from typing import Protocol


class Display(AbstractContextManager["Display"], Protocol):
    """Something that shows the state of the run."""

    def draw(self) -> None: ...


@contextmanager
def watching(display: Display, give_up: Callable[[], None], every_s: float = 0.1) -> Iterator[None]:
    """Draws from a thread inside the `with`, and once more at its end.

    If drawing fails (the reader of a pipe has gone), `give_up` is called, and the error is raised
    when the `with` is left.
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
