"""Which small worlds are explored, and how many states of each?"""

from __future__ import annotations

from itertools import product
from typing import get_args

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
_THREE: tuple[tuple[Partition, int], ...] = (
    *(((TOPIC, 0), 1), ((TOPIC, 1), 1), ((OTHER_TOPIC, 0), 2)),
)

DEEP: tuple[Shape, ...] = (
    Shape("consumer", "eager", _ONE_TOPIC, (1,), _FEW),
    Shape("topic", "cooperative", _TWO_TOPICS, (1,), _FEW),
    Shape("partition", "consumer", _ONE_TOPIC, (1, 2), _FEW),
)
"""Two partitions and the steps that matter most: each scope once, and each protocol once."""

WIDE: tuple[Shape, ...] = tuple(
    Shape(scope, protocol, _THREE, (1,), _ALL)
    for scope, protocol in product(get_args(ScopeKind), get_args(Protocol))
)
"""Three partitions of two topics, and every step: each scope in each protocol."""

SHAPES: tuple[Shape, ...] = (*DEEP, *WIDE)
"""Only to be added to at the end: a seed names its world by its place here."""

MOST_STATES: tuple[int, ...] = (*[200_000] * len(DEEP), *[400_000 // len(WIDE)] * len(WIDE))
"""A million in all. Where those of a world are used up, it is explored no further."""
