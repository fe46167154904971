"""The layer: 300,000 assignments while a circuit is open let nothing through.

librdkafka lets a paused partition through once in 60,000 assignments, or leaves it dead for good
(librdkafka #5591): too rare for a test that assigns a few.
"""

import random
from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import dataclass

from linear_retry.kafka.embedded.cluster import EmbeddedKafka
from tests.scenarios.protocols import PROTOCOLS
from tests.torture.layer import Broker, Counts, Failure, Seeded, Tally
from tests.torture.pause_race.race import Race

ASSIGNMENTS = 500
"""Of one play: it goes on until there were so many."""


def play(number: int) -> Counts:
    """A member with open circuits is given its partitions again and again; then all is repaired."""
    rng = random.Random(number)
    protocol = list(PROTOCOLS)[number % len(PROTOCOLS)]
    with ExitStack() as stack:
        # In KIP-848 groups the times are the broker's.
        kafka = EmbeddedKafka(session_timeout_ms=6_000, heartbeat_interval_ms=50)
        stack.enter_context(kafka)
        race = Race(kafka, protocol, rng, stack)
        try:
            race.open()
            while race.assignments < ASSIGNMENTS:
                race.share_anew()
            race.close()
            race.judge()
        except Exception as error:
            raise AssertionError(f"{type(error).__name__}: {error}\n{race.story()}") from error
        return race.counts()


@dataclass(frozen=True, slots=True)
class PauseRace:
    """Counts partition-assignments: a seed is the number of one, and replays the play it is in."""

    name: str = "pause-race"
    unit: str = "partition-assignments"
    short: int = 500
    long: int = 300_000

    def run(self, first: int, amount: int, broker: Broker) -> Iterator[Tally]:
        begin, end = first // ASSIGNMENTS, -(-(first + amount) // ASSIGNMENTS)
        plays = Seeded(self.name, "plays", short=0, long=0, play=play, chunk=1)
        for part in plays.run(begin, end - begin, broker):
            yield Tally(
                part.done * ASSIGNMENTS,
                part.counts,
                [Failure(failed.seed * ASSIGNMENTS, failed.story) for failed in part.failures],
            )


PAUSE_RACE = PauseRace()
