"""The base class of all guarantees, a violation of one, and the bound on what is kept."""

from abc import ABC, abstractmethod
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from linear_retry.scope import Partition
from linear_retry.testing.event_log import (
    Appended,
    AttemptFinished,
    AttemptStarted,
    Committed,
    Crashed,
    Disturbed,
    Entry,
    EventEmitted,
    StateSize,
)

_SHOWN_ENTRIES = 30
_EXCERPTS = 100
"""The most excerpts for one guarantee: thousands of a long log would take hours."""


@dataclass(frozen=True, slots=True)
class Violation:
    """A guarantee that does not hold: `text` in one sentence, and the entries that show it.

    `excerpt` is the shortest sufficient excerpt of the log, without entries about other members and
    partitions. It is empty if missing entries are the violation, and after a hundred violations of
    one guarantee.
    """

    guarantee: str
    text: str
    excerpt: tuple[Entry, ...]

    def __str__(self) -> str:
        lines = [f"    {entry}" for entry in self.excerpt]
        left_out = len(lines) - _SHOWN_ENTRIES
        if left_out > 0:
            half = _SHOWN_ENTRIES // 2
            lines[half:-half] = [f"    ... {left_out} entries more ..."]
        return "\n".join([f"{self.guarantee}: {self.text}", *lines])


@dataclass(frozen=True, slots=True)
class _Broken:
    """A violation, shown by entries `first` to `last` about `member` or `partition`."""

    text: str
    first: Entry | None
    last: Entry | None
    member: str | None
    partition: Partition | None


class Guarantee(ABC):
    """Checks one promise against the entries of a log, one after another.

    One object for one log. `feed` every entry in order, `finish` once, then read `violations`.
    """

    def __init__(self) -> None:
        self._broken: list[_Broken] = []

    @abstractmethod
    def feed(self, entry: Entry) -> None:
        """Takes the next entry."""

    def finish(self) -> None:  # noqa: B027  (most are violated by entries, not by their absence)
        """Takes the end of the log."""

    def violations(self, log: Sequence[Entry]) -> list[Violation]:
        """The violations so far. `log` is what was fed: the excerpts are cut from it."""
        if not self._broken:
            return []
        name, where = type(self).__name__, {id(entry): index for index, entry in enumerate(log)}
        return [
            Violation(name, broken.text, _excerpt(log, broken, where) if number < _EXCERPTS else ())
            for number, broken in enumerate(self._broken)
        ]

    def _violate(
        self,
        text: str,
        first: Entry | None,
        last: Entry | None,
        *,
        member: str | None = None,
        partition: Partition | None = None,
    ) -> None:
        self._broken.append(_Broken(text, first, last, member, partition))


def broken(log: Sequence[Entry], guarantees: Iterable[Guarantee]) -> list[Violation]:
    """Feeds the whole log to all guarantees; returns every violation, none if all hold."""
    found: list[Violation] = []
    for guarantee in guarantees:
        for entry in log:
            guarantee.feed(entry)
        guarantee.finish()
        found += guarantee.violations(log)
    return found


def _excerpt(log: Sequence[Entry], broken: _Broken, where: Mapping[int, int]) -> tuple[Entry, ...]:
    first, last = broken.first or broken.last, broken.last
    if first is None or last is None:
        return ()
    return tuple(
        entry
        for entry in log[where[id(first)] : where[id(last)] + 1]
        if entry is first or entry is last or _concerns(entry, broken)
    )


def _concerns(entry: Entry, broken: _Broken) -> bool:
    if isinstance(entry, Disturbed):
        return True
    if broken.member is not None and entry.member not in (broken.member, ""):
        return False
    partition = broken.partition
    if partition is None:
        return True
    match entry:
        case AttemptStarted() | AttemptFinished() | Appended():
            return entry.place[:2] == partition
        case Committed():
            return partition in entry.offsets
        case EventEmitted():
            return _is_about(entry, partition)
        case Crashed():
            return broken.member is not None
        case _:
            return False


def _is_about(said: EventEmitted, partition: Partition) -> bool:
    event = said.event
    scope = getattr(event, "scope", None)
    if scope is not None:
        return bool(scope.concerns(partition))
    if hasattr(event, "partitions"):
        return partition in event.partitions
    return (getattr(event, "topic", None), getattr(event, "partition", None)) == partition


class BoundedState(Guarantee):
    """A member never keeps more entries of state than allowed (`StateSize`)."""

    def feed(self, entry: Entry) -> None:
        if isinstance(entry, StateSize) and entry.entries > entry.limit:
            text = f"{entry.member} keeps {entry.entries} entries, at most {entry.limit} may be"
            self._violate(text, entry, entry, member=entry.member)
