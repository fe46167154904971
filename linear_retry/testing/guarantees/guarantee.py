"""What is a guarantee, and what does a violation of one show?"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from linear_retry.scope import Partition
from linear_retry.testing.event_log import Appended, Begun, Committed, Disturbed, Ended, Entry, Said

_SHOWN_ENTRIES = 30


@dataclass(frozen=True, slots=True)
class Violation:
    """A guarantee that does not hold: `text` in one sentence, and what shows it.

    `stretch` is the shortest stretch of the log that does, without what concerns neither the
    member nor the partition. Empty where it is what is missing that shows it.
    """

    guarantee: str
    text: str
    stretch: tuple[Entry, ...]

    def __str__(self) -> str:
        lines = [f"    {entry}" for entry in self.stretch]
        left_out = len(lines) - _SHOWN_ENTRIES
        if left_out > 0:
            half = _SHOWN_ENTRIES // 2
            lines[half:-half] = [f"    ... {left_out} entries more ..."]
        return "\n".join([f"{self.guarantee}: {self.text}", *lines])


@dataclass(frozen=True, slots=True)
class _Broken:
    """`first` to `last` of the log show it, as far as they concern `member` or `partition`."""

    text: str
    first: Entry | None
    last: Entry | None
    member: str | None
    partition: Partition | None


class Guarantee(ABC):
    """Told one entry of a log after another, it finds out whether a promise was broken.

    One object for one log. `feed` every entry in order, `finish` once, then ask for `violations`.
    """

    def __init__(self) -> None:
        self._broken: list[_Broken] = []

    @abstractmethod
    def feed(self, entry: Entry) -> None:
        """What happened next."""

    def finish(self) -> None:  # noqa: B027  (most are broken by what happens, not by what does not)
        """Nothing more happens."""

    def violations(self, log: Sequence[Entry]) -> list[Violation]:
        """What was broken so far. `log` is what was fed: the stretches are cut from it."""
        name = type(self).__name__
        return [Violation(name, broken.text, _stretch(log, broken)) for broken in self._broken]

    def _break(
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
    """Feed the whole log to all of them: every violation; empty where all hold."""
    found: list[Violation] = []
    for guarantee in guarantees:
        for entry in log:
            guarantee.feed(entry)
        guarantee.finish()
        found += guarantee.violations(log)
    return found


def _stretch(log: Sequence[Entry], broken: _Broken) -> tuple[Entry, ...]:
    if broken.last is None:
        return ()
    end = _index(log, broken.last)
    begin = end if broken.first is None else _index(log, broken.first)
    return tuple(
        entry
        for entry in log[begin : end + 1]
        if entry is broken.first or entry is broken.last or _concerns(entry, broken)
    )


def _index(log: Sequence[Entry], wanted: Entry) -> int:
    return next(index for index, entry in enumerate(log) if entry is wanted)


def _concerns(entry: Entry, broken: _Broken) -> bool:
    if isinstance(entry, Disturbed):
        return True
    if broken.member is not None and entry.member not in (broken.member, ""):
        return False
    partition = broken.partition
    if partition is None:
        return True
    match entry:
        case Begun() | Ended() | Appended():
            return entry.place[:2] == partition
        case Committed():
            return partition in entry.offsets
        case Said():
            return _is_about(entry, partition)
        case _:
            return False


def _is_about(said: Said, partition: Partition) -> bool:
    event = said.event
    scope = getattr(event, "scope", None)
    if scope is not None:
        return bool(scope.covers(partition))
    if hasattr(event, "partitions"):
        return partition in event.partitions
    return (getattr(event, "topic", None), getattr(event, "partition", None)) == partition
