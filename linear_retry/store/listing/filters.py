"""What operators look for: conditions on messages that wait and on dead letters."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import NamedTuple

from sqlalchemy import ColumnElement, Table

from linear_retry.store.listing import error_search
from linear_retry.store.records import Service
from linear_retry.store.schema import dead_letter, is_equal, lane, message


class Place(NamedTuple):
    """The last row of a page: the next page begins behind it."""

    time_ms: int
    id: int


@dataclass(frozen=True, slots=True, kw_only=True)
class _Filter:
    """None is everything."""

    service: Service | None = None
    destination: str | None = None
    group_id: str | None = None
    retry_id: str | None = None
    key: bytes | None = None
    error: str | None = None
    """A part of the error's text, in upper or lower case; of a message, that of its lane."""
    since_ms: int | None = None
    until_ms: int | None = None
    """Exclusive."""

    def _equal(self, table: Table, *names: str) -> Iterator[ColumnElement[bool]]:
        for name in names:
            wanted = getattr(self, name)
            if wanted is not None:
                is_long = name in ("key", "retry_id")
                yield is_equal(table.c[name], wanted) if is_long else table.c[name] == wanted

    def _between(self, time_ms: ColumnElement[int]) -> Iterator[ColumnElement[bool]]:
        if self.since_ms is not None:
            yield time_ms >= self.since_ms
        if self.until_ms is not None:
            yield time_ms < self.until_ms


@dataclass(frozen=True, slots=True, kw_only=True)
class MessageFilter(_Filter):
    """Which messages; `since_ms` and `until_ms` are about the time they are due."""

    is_held: bool | None = None
    """Whether their lane is on hold now."""

    def lanes(self, now_ms: int) -> Iterator[ColumnElement[bool]]:
        """The conditions on their lane."""
        yield from self._equal(lane, "service", "destination")
        if self.error is not None:
            yield error_search.has_part(lane.c.error, self.error)
        if self.is_held is not None:
            held = lane.c.hold_until_ms > now_ms
            yield held if self.is_held else ~held

    def messages(self) -> Iterator[ColumnElement[bool]]:
        """The conditions on the message itself."""
        yield from self._equal(message, "group_id", "retry_id", "key")
        yield from self._between(message.c.due_ms)


@dataclass(frozen=True, slots=True, kw_only=True)
class DeadLetterFilter(_Filter):
    """Which dead letters; `since_ms` and `until_ms` are about the time they died."""

    reason: str | None = None

    def conditions(self) -> Iterator[ColumnElement[bool]]:
        """The conditions on the dead letter, but for its error."""
        names = ("service", "destination", "group_id", "retry_id", "key", "reason")
        yield from self._equal(dead_letter, *names)
        yield from self._between(dead_letter.c.died_ms)
