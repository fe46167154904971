"""A sequence of steps, written as a number."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import permutations
from typing import Literal, TypeAlias

PARTITIONS = 3

Verb: TypeAlias = Literal[
    "poll",
    "assign",
    "assign all",
    "revoke",
    "revoke all",
    "revoke all after a message",
    "lose",
    "lose, reported as a revoke",
    "timer",
    "stall",
    "transient",
    "permanent",
    "poll raises",
    "leak",
    "commits late",
    "letter fails",
    "other",
    "returns",
    "slow",
    "retry",
]

_ABOUT_ONE: tuple[Verb, ...] = ("assign", "revoke", "transient", "permanent", "leak", "other")
_ABOUT_ALL: tuple[Verb, ...] = (
    *(
        "assign all",
        "revoke all",
        "revoke all after a message",
        "lose",
        "lose, reported as a revoke",
    ),
    *("timer", "stall", "poll raises", "commits late", "letter fails"),
)


@dataclass(frozen=True, slots=True)
class Step:
    """`number`: of which partition of the world, or of which key. `order`: in which a poll finds
    the partitions.
    """

    verb: Verb
    number: int | None = None
    order: tuple[int, ...] = ()

    def __str__(self) -> str:
        if self.verb == "poll":
            return f"poll, {' before '.join(map(str, self.order))}"
        return self.verb if self.number is None else f"{self.verb} {self.number}"


STEPS: tuple[Step, ...] = (
    *(Step("poll", order=order) for order in permutations(range(PARTITIONS))),
    *(Step(verb) for verb in _ABOUT_ALL),
    *(Step(verb, number) for verb in _ABOUT_ONE for number in range(PARTITIONS)),
    Step("returns"),
    *(Step("slow", number) for number in range(PARTITIONS)),
    Step("retry"),
)
"""Only to be added to at the end: a seed names its steps by their places here."""

_BASE = 64
_WORLDS = 32


@dataclass(frozen=True, slots=True)
class Way:
    """A world, and the steps taken in it from its beginning: places in `STEPS`."""

    world: int
    steps: tuple[int, ...] = ()

    def then(self, step: int) -> Way:
        return Way(self.world, (*self.steps, step))

    def leads_to(self, way: Way) -> bool:
        """Whether it is the same, or the beginning of it."""
        return self.world == way.world and self.steps == way.steps[: len(self.steps)]

    @property
    def seed(self) -> int:
        """The one number that says all of it."""
        number = 0
        for step in self.steps:
            number = number * _BASE + step + 1
        return number * _WORLDS + self.world

    @classmethod
    def of(cls, seed: int) -> Way:
        """The inverse of `seed`. Raises `ValueError` where no way has that number."""
        number, world = divmod(seed, _WORLDS)
        steps: list[int] = []
        while number:
            number, place = divmod(number, _BASE)
            if not 0 < place <= len(STEPS):
                raise ValueError(f"{seed} is the number of no sequence of steps")
            steps.append(place - 1)
        return cls(world, tuple(reversed(steps)))
