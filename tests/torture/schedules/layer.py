"""The layer: schedules of one seed after another, and at the end, has everything struck?"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass

from tests.torture.layer import Broker, Failure, Seeded, Tally
from tests.torture.schedules.play import KINDS, play, story
from tests.torture.schedules.struck import gaps, summed_up

_SHRUNK = 3


@dataclass(frozen=True, slots=True)
class Schedules:
    """What its plays counted is told by state; the first failures are shrunk."""

    name: str = "schedules"
    unit: str = "schedules"
    short: int = 20_000
    long: int = 1_000_000
    shrinking_plays: int = 600

    def run(self, first: int, amount: int, broker: Broker) -> Iterator[Tally]:
        """In the last part are the failures; one of them is that something has struck nowhere."""
        seeded = Seeded(self.name, self.unit, self.short, self.long, play)
        counts: Counter[str] = Counter()
        failures: list[Failure] = []
        for part in seeded.run(first, amount, broker):
            counts.update(part.counts)
            failures += part.failures
            yield Tally(part.done)
        failures.sort(key=lambda failure: failure.seed)
        shrunk = [
            Failure(failure.seed, story(failure.seed, self.shrinking_plays))
            for failure in failures[:_SHRUNK]
        ]
        missing = gaps(counts, KINDS) if amount >= self.short else []
        if missing:
            lines = "\n  ".join(["has never struck, in any of these schedules:", *missing])
            shrunk.append(Failure(first, lines))
        yield Tally(0, summed_up(counts), [*shrunk, *failures[_SHRUNK:]])


SCHEDULES = Schedules()
