"""The audit that the page shows: the console's own changes and those of the store, as one list."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from heapq import merge
from typing import Literal, TypeAlias

from linear_retry.console.state.audit import Audit
from linear_retry.console.state.audit import Change as OwnChange

Source: TypeAlias = Literal["console", "store"]

MOST = 500
"""Of one call of a `Read`."""

_SEARCHED = 20_000


@dataclass(frozen=True, slots=True)
class RecordedChange:
    """A change by a person. `id` is its number in the audit of its `source`."""

    at_ms: int
    actor: str
    action: str
    subject: str
    why: str
    outcome: str
    source: Source
    id: int


@dataclass(frozen=True, slots=True)
class Wanted:
    """Which changes; `who` and `what` are parts of a text, in upper or lower case."""

    who: str = ""
    what: str = ""
    """Of the action, the subject, the reason or the outcome."""

    def has(self, change: RecordedChange) -> bool:
        """Whether it is one of them."""
        texts = (change.action, change.subject, change.why, change.outcome)
        is_what = any(self.what.casefold() in text.casefold() for text in texts)
        return is_what and self.who.casefold() in change.actor.casefold()


@dataclass(frozen=True, slots=True)
class Before:
    """Where a page begins: behind the change with this id, in each audit; None: at the latest."""

    console: int | None = None
    store: int | None = None


Read: TypeAlias = Callable[[int | None], list[RecordedChange]]
"""Reads the latest changes of an audit, up to `MOST`; with an id, those before that one."""


class AllChanges:
    """Reads both audits, the latest change first.

    A change of the store's messages is in the store's audit alone, no matter who made it and where:
    it is written in the same transaction.
    """

    def __init__(self, own: Audit, of_store: Read | None = None) -> None:
        self._own = own
        self._of_store = of_store or (lambda _: [])

    def read(
        self, wanted: Wanted, *, limit: int, before: Before | None = None
    ) -> tuple[list[RecordedChange], Before | None]:
        """Returns changes, and where the next page begins; None after the last.

        Searches 20,000 changes at the most: a page may have fewer than `limit`, and a next one.
        Raises `StateError` and `StoreError`.
        """
        before = before or Before()
        found, last = list[RecordedChange](), dict[Source, int]()
        both = merge(
            _walk(self._own_changes, before.console),
            _walk(self._of_store, before.store),
            key=lambda each: -each.at_ms,
        )
        for count, change in enumerate(both, 1):
            last[change.source] = change.id
            if wanted.has(change):
                found.append(change)
            if len(found) == limit or count == _SEARCHED:
                return found, replace(before, **last)
        return found, None

    def _own_changes(self, before_id: int | None) -> list[RecordedChange]:
        return [_of_console(e) for e in self._own.read(limit=MOST, before_id=before_id)]


def _walk(read: Read, before_id: int | None) -> Iterator[RecordedChange]:
    """Yields the changes behind `before_id`, and reads them as they are asked for."""
    while some := read(before_id):
        yield from some
        before_id = some[-1].id


def _of_console(change: OwnChange) -> RecordedChange:
    return RecordedChange(
        change.at_ms,
        change.actor,
        change.action,
        change.subject,
        change.why,
        change.outcome,
        "console",
        change.id,
    )
