"""Was anything lost, reordered, early, or attempted while its circuit was open?"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping

from linear_retry.scope import Partition
from linear_retry.testing import (
    Away,
    Begun,
    Committed,
    CommittedOnlyDone,
    Ended,
    Entry,
    EventLog,
    LettersWithinLimit,
    NothingLost,
    NothingWhileOpen,
    Place,
    Said,
    all_guarantees,
    broken,
)
from linear_retry.testing.guarantees.done import done_by

__all__ = ["Away", "Begun", "Ended", "Entry", "Place", "Said", "Witness", "done_places"]


class Witness(EventLog):
    @property
    def log(self) -> list[Entry]:
        return self.entries


def violations(
    log: list[Entry],
    visible: Mapping[Partition, Iterable[int]],
    *,
    committed: Mapping[Partition, int],
    strategy_length: int,
    letter_limit: int | None = None,
    finished: bool = True,
) -> list[str]:
    at_s = log[-1].at_s if log else 0.0
    full = [*log, Committed(at_s, "", dict(committed))]
    chosen = all_guarantees(visible, strategy_length=strategy_length, limit=letter_limit)
    if not finished:
        chosen = [one for one in chosen if not isinstance(one, NothingLost)]
    return list(map(str, broken(full, chosen)))


def done_places(log: list[Entry]) -> set[Place]:
    return {place for entry in log for place in done_by(entry)}


def nothing_while_open(log: list[Entry]) -> Iterator[str]:
    yield from map(str, broken(log, [NothingWhileOpen()]))


def committed_only_done(
    log: list[Entry], visible: Mapping[Partition, Iterable[int]], committed: Mapping[Partition, int]
) -> Iterator[str]:
    full = [*log, Committed(0.0, "", dict(committed))]
    yield from map(str, broken(full, [CommittedOnlyDone(visible)]))


def nothing_lost(
    log: list[Entry], visible: Mapping[Partition, Iterable[int]], committed: Mapping[Partition, int]
) -> Iterator[str]:
    full = [*log, Committed(0.0, "", dict(committed))]
    yield from map(str, broken(full, [NothingLost(visible)]))


def letters_within(log: list[Entry], limit: int) -> Iterator[str]:
    yield from map(str, broken(log, [LettersWithinLimit(limit)]))
