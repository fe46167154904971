"""A fake broker at whose calls a member may die."""

from collections.abc import Iterator
from contextlib import contextmanager

from tests.fake.cluster import FakeKafka


class KilledError(BaseException):
    """The process is not there any more: nothing of it runs, and nobody catches this."""


class MortalKafka(FakeKafka):
    """Kills whoever acts at one of the next calls of its clients, or in its handler."""

    def __init__(self) -> None:
        super().__init__()
        self._calls_left: int | None = None
        self._wanted = ""
        self._is_acting = False
        self.has_killed = ""
        """The call at which it was; empty: none."""

    def kill_after(self, calls: int, wanted: str = "") -> None:
        """So many calls from now, of that name or of any, whoever makes the last of them."""
        self._calls_left, self._wanted = calls, wanted

    def spare(self) -> None:
        """Nobody is killed any more."""
        self._calls_left = None

    @contextmanager
    def acting(self) -> Iterator[None]:
        """Its body is a member's turn. Nothing is raised for one that was killed in it."""
        self._is_acting, self.has_killed = True, ""
        try:
            yield
        except BaseException:
            if not self.has_killed:
                raise
        finally:
            self._is_acting = False

    def note(self, client: str, call: str, arguments: object) -> None:
        super().note(client, call, arguments)
        if not self._is_acting:
            return
        if self.has_killed:  # what a process does in its `finally` is not done either
            raise KilledError
        if self._calls_left is not None and self._wanted in ("", call):
            self._calls_left -= 1
            if self._calls_left <= 0:
                self._calls_left, self.has_killed = None, call
                raise KilledError
