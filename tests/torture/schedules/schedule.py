"""A schedule: what happens in one play, in order."""

import random
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, fields, replace
from typing import Any, Literal, TypeAlias, get_args

from linear_retry.retry.decision import OnExhausted, OnPermanent
from linear_retry.scope import ScopeKind
from tests.consumer.group import Protocol

State: TypeAlias = Literal[
    "closed",
    "open",
    "half-open",
    "in the handler",
    "waiting for a letter",
    "committing",
    "in a callback",
    "closing",
]
"""Where a member is when something strikes. The first three are those of its circuit."""

LoopKind: TypeAlias = Literal["run", "own", "async", "batches", "workers", "keys"]
Carrier: TypeAlias = Literal[
    "dead letters", "retry topics", "one retry topic", "recovery", "back from a retry topic"
]
"""Where a message goes that the strategy has not saved; the last one is read by a retry line."""
Argument: TypeAlias = int | float | str | bool | tuple[int, ...]

_SHORTEST, _LONGEST = 5, 22
_STRIKES_INSIDE = 0.5
_CARRIERS: dict[Carrier, int] = {
    "dead letters": 5,
    "retry topics": 2,
    "one retry topic": 1,
    "recovery": 2,
    "back from a retry topic": 2,
}
_STATES: dict[State, int] = {
    "closed": 1,
    "open": 2,
    "half-open": 4,
    "in the handler": 2,
    "waiting for a letter": 3,
    "committing": 1,
    "in a callback": 2,
    "closing": 4,
}
"""How often each is waited for: the more rarely a member is in it, the more often."""


@dataclass(frozen=True, slots=True)
class Setting:
    """What does not change during a play. The first of each is the plainest."""

    protocol: Protocol = "eager"
    scope: ScopeKind = "consumer"
    loop: LoopKind = "run"
    transactional: bool = False
    letter_limit: int | None = None
    strategy: tuple[float, ...] = (1,)
    max_elapsed_s: float | None = None
    on_exhausted: OnExhausted = "dead-letter"
    on_permanent: OnPermanent = "dead-letter"
    topics: int = 1
    partitions: int = 1
    members: int = 1
    messages: int = 1
    """In each partition, at first."""
    last_chance: bool = False
    """Whether what waits in vain for a rare state is given one at the end."""
    carrier: Carrier = "dead letters"
    trip: int = 2
    most_held: int = 50
    most_bytes: int = 1_000_000
    """Where each key has its order; then the scope is that of a wide circuit."""
    group_breaker_max_s: float | None = None
    """Where one member attempts for all of the group."""

    def __str__(self) -> str:
        """What differs from the plainest."""
        values = {each.name: getattr(self, each.name) for each in fields(self)}
        return ", ".join(f"{name}={value!r}" for name, value in values.items())


@dataclass(frozen=True, slots=True)
class Step:
    """Something is done: at once, or as soon as a member is `inside` that state, the `skip`th time.

    Its arguments mean something whatever other steps there are: numbers count modulo what is there.
    """

    name: str
    arguments: tuple[tuple[str, Argument], ...] = ()
    inside: State | None = None
    skip: int = 0

    def __str__(self) -> str:
        call = f"{self.name}({', '.join(f'{name}={value!r}' for name, value in self.arguments)})"
        if self.inside is None:
            return call
        return f"{call}, as soon as a member is {self.inside}" + f" (+{self.skip})" * bool(
            self.skip
        )


@dataclass(frozen=True, slots=True)
class Schedule:
    """All that a play follows from."""

    setting: Setting
    steps: tuple[Step, ...]

    def __str__(self) -> str:
        lines = [f"  {number:2}. {step}" for number, step in enumerate(self.steps, 1)]
        return "\n".join([f"  {self.setting}", *lines])


@dataclass(frozen=True, slots=True)
class Kind:
    """A kind of step: the values of each argument, the plainest first, and how often it is drawn.

    `strikes`: it may be done inside a member too.
    """

    name: str
    ranges: Mapping[str, Sequence[Argument]]
    weight: int
    strikes: bool
    essential: bool
    """Without it next to nothing happens, so every schedule may have it."""

    def draw(self, rng: random.Random) -> Step:
        arguments = tuple((name, rng.choice(values)) for name, values in self.ranges.items())
        if not self.strikes or rng.random() >= _STRIKES_INSIDE:
            return Step(self.name, arguments)
        # Mostly at the first chance, as most chances are not seen twice.
        return Step(self.name, arguments, _weighted(rng, _STATES), max(rng.randrange(-6, 4), 0))


def draw(seed: int, kinds: Iterable[Kind]) -> Schedule:
    """The schedule of this seed.

    Only half of the kinds are in it: with all of them in each, they would hide one another
    (Groce et al., Swarm Testing, 2012).
    """
    rng = random.Random(seed)
    setting = _setting(rng)
    chosen = [kind for kind in kinds if kind.essential or rng.random() < 0.5]
    drawn = rng.choices(
        chosen, [kind.weight for kind in chosen], k=rng.randint(_SHORTEST, _LONGEST)
    )
    steps = tuple(kind.draw(rng) for kind in drawn)
    if setting.on_exhausted != "repeat":  # which never ends
        limit_s = _weighted(rng, {None: 6, 0.5: 1, 4.0: 1, 20.0: 1})
        setting = replace(setting, max_elapsed_s=limit_s)
    if setting.on_exhausted == "dead-letter":
        setting = replace(setting, carrier=_weighted(rng, _CARRIERS))
    reads_retries = setting.carrier == "back from a retry topic"
    if setting.scope == "partition" and not reads_retries and rng.random() < 0.3:
        setting = replace(setting, loop="workers")
    elif not reads_retries and rng.random() < 0.3:
        setting = _by_key(setting, rng)
    if setting.scope == "consumer" and rng.random() < 0.5:
        setting = replace(setting, group_breaker_max_s=rng.choice((6.0, 20.0)))
    return Schedule(setting, steps)


def _by_key(setting: Setting, rng: random.Random) -> Setting:
    return replace(
        setting,
        loop="keys",
        trip=rng.choice((2, 3, 50)),
        most_held=rng.choice((50, 1, 3)),
        most_bytes=rng.choice((1_000_000, 1, 100)),
        on_exhausted=_or_block(setting.on_exhausted, rng, setting.carrier == "dead letters"),
        on_permanent=_or_block(setting.on_permanent, rng),
    )


def _or_block(choice: Any, rng: random.Random, may: bool = True) -> Any:
    """Now and then a key waits for an operator in place of a letter."""
    return "block" if rng.random() < 0.25 and may and choice == "dead-letter" else choice


def _setting(rng: random.Random) -> Setting:
    on_exhausted = _weighted(rng, {"dead-letter": 8, "repeat": 1, "stop": 1})
    strategies: list[tuple[float, ...]] = [(1, 0, 2, 5), (1, 2), (1, 60), (0.5, 0.5, 30)]
    if (
        on_exhausted != "repeat"
    ):  # which needs a delay, and would go round a thousand times a second
        strategies += [(), (0,)]
    return Setting(
        protocol=rng.choice(get_args(Protocol)),
        scope=rng.choice(get_args(ScopeKind)),
        loop=_weighted(rng, {"run": 5, "own": 4, "async": 1, "batches": 3}),
        transactional=rng.random() < 0.35,
        letter_limit=_weighted(rng, {None: 6, 1: 1, 2: 1}),
        strategy=rng.choice(strategies),
        on_exhausted=on_exhausted,
        on_permanent=_weighted(rng, {"dead-letter": 8, "skip": 1, "stop": 1}),
        topics=rng.randint(1, 2),
        partitions=rng.randint(1, 3),
        members=rng.randint(1, 3),
        messages=rng.choice((0, 1, 3, 10, 20)),
        last_chance=rng.random() < 0.5,
    )


def _weighted(rng: random.Random, weights: Mapping[Any, int]) -> Any:
    return rng.choices(list(weights), list(weights.values()))[0]
