"""The course of a soak: what happens when."""

import random
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Literal, TypeAlias

Happening: TypeAlias = Literal["outage", "repaired", "kill"]

_SHORT_S = 120.0


@dataclass(frozen=True, slots=True)
class Course:
    """How long, and how hard. `seed` decides when something fails, and who is killed."""

    seconds: float
    seed: int = 0
    messages_per_s: float = 60.0
    poison_every: int = 200
    """One message of so many can never be handled: a dead letter."""
    last_outage_s: float = 0.0
    """The end is an outage for so long: even a slow member gives messages up in it."""

    @property
    def warm_up_s(self) -> float:
        """Caches, pools and arenas fill up: for so long into a life nothing is measured."""
        return max(self.seconds / 5, min(60.0, self.seconds / 3))

    @property
    def look_every_s(self) -> float:
        return max(self.seconds / 1000, 0.25)

    def happenings(self) -> list[tuple[float, Happening]]:
        """In the order of time. Everything is repaired at the end."""
        rng = random.Random(self.seed)
        last_s = self.seconds - self.last_outage_s
        drawn = [*self._outages(rng), *self._kills(rng)]
        planned = sorted((at_s, what) for at_s, what in drawn if at_s <= last_s)
        last: list[tuple[float, Happening]] = [(last_s, "outage")] if self.last_outage_s else []
        return [*planned, *last, (self.seconds, "repaired")]

    def _outages(self, rng: random.Random) -> Iterator[tuple[float, Happening]]:
        at_s = rng.uniform(1, 4)
        while at_s < self.seconds:
            yield at_s, "outage"
            at_s += rng.uniform(0.3, 2.5)
            yield min(at_s, self.seconds), "repaired"
            at_s += rng.uniform(2, 15)

    def _kills(self, rng: random.Random) -> Iterator[tuple[float, Happening]]:
        if self.seconds < _SHORT_S:
            yield self.seconds * 0.4, "kill"
            return
        at_s = rng.uniform(0.3, 0.6) * min(self.seconds, 400)
        while at_s < self.seconds - 30:
            yield at_s, "kill"
            at_s += rng.uniform(120, 360)
