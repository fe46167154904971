"""The layer: schedules of one seed after another, and at the end, everything has struck."""

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, replace

from tests.torture.layer import Broker, Failure, Seeded, Tally, range_of
from tests.torture.schedules.play import KINDS, play, story
from tests.torture.schedules.struck import gaps, summed_up

_SHRUNK = 3


@dataclass(frozen=True, slots=True)
class Schedules:
    """What its plays counted is summed by state; the first failures are shrunk, as they come.

    `enough` schedules strike everywhere; fewer may leave a rare state out.
    """

    name: str = "schedules"
    unit: str = "schedules"
    short: int = 500
    long: int = 1_000_000
    shrinking_plays: int = 600
    enough: int = 20_000

    def run(self, first: int, amount: int, broker: Broker) -> Iterator[Tally]:
        """In the last part is nothing but what has struck nowhere."""
        seeded = Seeded(self.name, self.unit, self.short, self.long, play)
        counts: Counter[str] = Counter()
        to_shrink = _SHRUNK
        for part in seeded.run(first, amount, broker):
            counts.update(part.counts)
            failures = [*map(self._shrunk, part.failures[:to_shrink]), *part.failures[to_shrink:]]
            to_shrink = max(to_shrink - len(failures), 0)
            yield Tally(part.done, summed_up(part.counts), failures)
        missing = gaps(counts, KINDS) if amount >= self.enough else []
        if missing:
            lines = "\n  ".join(["has never struck, in any of these schedules:", *missing])
            seeds = range(first, first + amount)
            yield Tally(failures=[Failure(first, lines, range_of(seeds))])

    def _shrunk(self, failure: Failure) -> Failure:
        """Its story, as short as it can be; where it was no seed that failed, or it does not fail
        here, as it came.
        """
        try:
            reported = "" if failure.replay else story(failure.seed, self.shrinking_plays)
        except ValueError:
            reported = f"not so when played again:\n{failure.story}"
        return replace(failure, story=reported or failure.story)


SCHEDULES = Schedules()
