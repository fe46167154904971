"""Who draws while the main thread consumes?"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from threading import Event, Thread
from typing import Protocol


class Face(AbstractContextManager["Face"], Protocol):
    """Something that shows how the run stands."""

    def draw(self) -> None: ...


@contextmanager
def watching(face: Face, give_up: Callable[[], None], every_s: float = 0.1) -> Iterator[None]:
    """Draw from a thread inside the `with`, and once more at its end.

    Where drawing fails (whoever read it has gone) `give_up` is called, and the error raised when
    the `with` is left.
    """
    ended = Event()
    errors: list[OSError] = []

    def draw_until_the_end() -> None:
        try:
            while not ended.wait(every_s):
                face.draw()
        except OSError as error:
            errors.append(error)
            give_up()

    thread = Thread(target=draw_until_the_end, name="screen", daemon=True)
    with face:
        thread.start()
        try:
            yield
        finally:
            ended.set()
            thread.join()
            if not errors:
                face.draw()
    if errors:
        raise errors[0]
