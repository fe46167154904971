"""The small worlds that are explored, and how many states of each."""

from itertools import product
from typing import get_args

from linear_retry.consumer.settings.by_key import ByKey
from linear_retry.scope import Partition, ScopeKind
from tests.consumer.group import OTHER_TOPIC, TOPIC, Protocol
from tests.torture.exhaustive.small_world import Shape
from tests.torture.exhaustive.ways import STEPS, Verb

_FEW: tuple[Verb, ...] = (
    *("poll", "assign", "assign all", "revoke", "revoke all", "lose", "timer"),
    *("transient", "permanent", "poll raises", "leak", "letter fails"),
)
_ALL: tuple[Verb, ...] = tuple(dict.fromkeys(step.verb for step in STEPS))

_ONE_TOPIC: tuple[tuple[Partition, int], ...] = (((TOPIC, 0), 2), ((TOPIC, 1), 2))
_TWO_TOPICS: tuple[tuple[Partition, int], ...] = (((TOPIC, 0), 2), ((OTHER_TOPIC, 0), 2))
_THREE_ALIKE: tuple[tuple[Partition, int], ...] = tuple(((TOPIC, n), 1) for n in range(3))
_THREE_OF_TWO: tuple[tuple[Partition, int], ...] = (
    *(((TOPIC, 0), 1), ((TOPIC, 1), 1), ((OTHER_TOPIC, 0), 1)),
)
_THREE: tuple[tuple[Partition, int], ...] = (
    *(((TOPIC, 0), 1), ((TOPIC, 1), 1), ((OTHER_TOPIC, 0), 2)),
)

_PAIRS: tuple[tuple[ScopeKind, Protocol], ...] = tuple(
    product(get_args(ScopeKind), get_args(Protocol))
)
_OF_SCOPE: dict[ScopeKind, tuple[tuple[tuple[Partition, int], ...], tuple[float, ...]]] = {
    "consumer": (_ONE_TOPIC, (1,)),
    "topic": (_TWO_TOPICS, (1,)),
    "partition": (_ONE_TOPIC, (1, 2)),
}

TWO: tuple[Shape, ...] = tuple(
    Shape(scope, protocol, *_OF_SCOPE[scope], _FEW) for scope, protocol in _PAIRS
)
"""Two partitions that differ in nothing but names, and the steps that matter most."""

THREE: tuple[Shape, ...] = (
    Shape("consumer", "eager", _THREE_ALIKE, (1,), _FEW),
    Shape("partition", "cooperative", _THREE_ALIKE, (1,), _FEW),
    Shape("topic", "consumer", _THREE_OF_TWO, (1,), _FEW),
)
"""Three partitions, as much alike as the scope leaves a difference."""

WIDE: tuple[Shape, ...] = tuple(
    Shape(scope, protocol, _THREE, (1,), _ALL) for scope, protocol in _PAIRS
)
"""Three partitions of two topics, and every step."""

_BY_KEY: tuple[Verb, ...] = (
    *("poll", "assign", "revoke all", "lose", "timer", "transient", "permanent", "slow"),
    *("returns", "retry", "commits late", "letter fails"),
)
_KEYS = (b"a", b"b", b"a")
_ONE = (((TOPIC, 0), len(_KEYS)),)
_HOLDS = ByKey(trip=50)
_TRIPS = ByKey(trip=2)

KEYS: tuple[Shape, ...] = (
    Shape("key", "eager", _ONE, (1,), _BY_KEY, _KEYS, _HOLDS),
    Shape("key", "cooperative", _ONE, (1,), _BY_KEY, _KEYS, _TRIPS),
    Shape("key", "consumer", _ONE, (1,), _BY_KEY, _KEYS, _HOLDS, on_exhausted="block"),
)
"""One partition of two keys, handled side by side."""

SHAPES: tuple[Shape, ...] = (*TWO, *THREE, *WIDE, *KEYS)
"""Only to be added to at the end: a seed names its world by its place here."""

_DEEPEST: tuple[tuple[ScopeKind, Protocol], ...] = (
    *(("consumer", "eager"), ("topic", "cooperative"), ("partition", "consumer")),
)

_SHORT = dict(zip(_DEEPEST, (6, 5, 5), strict=True))
SHORT_DEPTHS: dict[int, int] = {
    **{n: _SHORT.get(pair, 4) for n, pair in enumerate(_PAIRS)},
    **dict.fromkeys(range(len(TWO), len(TWO) + len(THREE)), 3),
    **dict.fromkeys(range(len(SHAPES) - len(KEYS), len(SHAPES)), 5),
}
"""How deep in the short form, by world: with six steps a circuit comes to each of its states."""

MOST_STATES: tuple[int, ...] = (
    *(130_000 if pair in _DEEPEST else 35_000 for pair in _PAIRS),
    *[60_000] * len(THREE),
    *[220_000 // len(WIDE)] * len(WIDE),
    *[60_000] * len(KEYS),
)
"""A million in all, and those of keys. Where those of a world are used up, it is explored no
further."""


def name_of(world: int) -> str:
    """Short, for a table."""
    shape = SHAPES[world]
    steps = "every step" if shape.verbs == _ALL else "the chief steps"
    count = len(shape.partitions)
    return f"scope {shape.scope}, {shape.protocol}, {count} partitions, {steps}"
