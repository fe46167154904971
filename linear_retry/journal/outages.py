"""Outages of a dependency: the episodes of a group that belong together, as one."""

from bisect import bisect_right
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from itertools import groupby

from linear_retry.journal.episodes import Episode
from linear_retry.records.durations import DAY_MS
from linear_retry.scope import Place

GIVEN_UP = ("dead-lettered", "skipped")
LEFT_LINE = ("sent-to-retry", "handed-over")
"""Its message may still be handled, by the retry line or the callback: it is not given up."""

"""A message that fails again so much later, with no consumer meanwhile, has met another outage."""


@dataclass(frozen=True, slots=True)
class Outage:
    """What the members of a group saw at overlapping times, the earliest episode first."""

    episodes: tuple[Episode, ...]

    @property
    def group(self) -> str:
        return self.episodes[0].group

    @property
    def began_ms(self) -> int:
        return self.episodes[0].began_ms

    @property
    def ended_ms(self) -> int:
        """When the last entry about it was written."""
        return max(each.ended_ms for each in self.episodes)

    @property
    def is_open(self) -> bool:
        return any(each.is_open for each in self.episodes)

    @property
    def scopes(self) -> tuple[str, ...]:
        """What was paused, sorted."""
        return tuple(sorted({str(each.scope) for each in self.episodes}))

    @property
    def members(self) -> int:
        return len({each.member for each in self.episodes})

    @property
    def messages(self) -> int:
        """The number of messages that failed; not of those that waited behind them."""
        return len({each.held for each in self.episodes if each.held is not None})

    @property
    def attempts(self) -> int:
        """The number of attempts that failed."""
        return sum(each.attempts for each in self.episodes)

    @property
    def error(self) -> str | None:
        """The first that is known."""
        return next((each.error for each in self.episodes if each.error is not None), None)

    @property
    def recovered(self) -> int:
        """The number of episodes that ended with a success."""
        return self._count("recovered")

    @property
    def given_up(self) -> int:
        """The number of episodes that ended with a dead letter, or a message that was skipped."""
        return self._count(*GIVEN_UP)

    @property
    def left_line(self) -> int:
        """The number of episodes whose message went to a retry topic, or to the callback."""
        return self._count(*LEFT_LINE)

    def _count(self, *outcomes: str) -> int:
        counts = Counter(each.outcome for each in self.episodes if each.outcome is not None)
        return sum(counts[outcome] for outcome in counts if outcome in outcomes)


def group_episodes(episodes: Iterable[Episode], *, skew_s: float = 1.0) -> list[Outage]:
    """Returns the outages of each group, the earliest first.

    Episodes of a group that overlap are one outage, even if only others connect them, and so are
    those no more than `skew_s` apart, by which the members' clocks may differ. An episode without
    a close lasts until the next attempt, if it is open, and until its message fails again. The
    law is that of `linear_retry.spark.group_outages`.
    """
    ordered = sorted(episodes, key=lambda each: (each.group, each.began_ms, each.ended_ms))
    found = [
        outage
        for _, of_group in groupby(ordered, key=lambda each: each.group)
        for outage in _islands(of_group, round(skew_s * 1000))
    ]
    return sorted(found, key=lambda each: (each.began_ms, each.group))


def _islands(ordered: Iterable[Episode], skew_ms: int) -> Iterator[Outage]:
    island: list[Episode] = []
    until_ms = 0
    for each, end_ms in _with_ends(list(ordered)):
        if island and each.began_ms > until_ms + skew_ms:
            yield Outage(tuple(island))
            island = []
        until_ms = max(until_ms, end_ms) if island else end_ms
        island.append(each)
    if island:
        yield Outage(tuple(island))


def _with_ends(of_group: list[Episode]) -> Iterator[tuple[Episode, int]]:
    """Yields each with the time until which it lasts."""
    begins: dict[Place | None, list[int]] = defaultdict(list)
    for each in of_group:
        begins[each.held].append(each.began_ms)
    for each in of_group:
        end_ms = each.waits_until_ms
        if each.outcome is None and each.held is not None:
            same = begins[each.held]
            index = bisect_right(same, each.began_ms)
            if index < len(same) and same[index] <= end_ms + DAY_MS:
                end_ms = max(end_ms, same[index])
        yield each, end_ms
