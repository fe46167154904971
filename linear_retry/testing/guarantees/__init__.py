"""What does an order-preserving consumer promise? One object for each promise."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from linear_retry.scope import Partition
from linear_retry.testing.guarantees.commits import CommittedOnlyDone
from linear_retry.testing.guarantees.duplicates import BoundedDuplicates
from linear_retry.testing.guarantees.guarantee import Guarantee, Violation, broken
from linear_retry.testing.guarantees.letters import DeadLetteredOnlyWhenDue, LettersWithinLimit
from linear_retry.testing.guarantees.life import Alive
from linear_retry.testing.guarantees.loss import NothingLost
from linear_retry.testing.guarantees.order import InOrder
from linear_retry.testing.guarantees.ownership import OnlyWhileOwned
from linear_retry.testing.guarantees.standstill import NothingWhileOpen
from linear_retry.testing.guarantees.state import BoundedState
from linear_retry.testing.guarantees.time import NothingEarly, NothingLate

__all__ = [
    "Alive",
    "BoundedDuplicates",
    "BoundedState",
    "CommittedOnlyDone",
    "DeadLetteredOnlyWhenDue",
    "Guarantee",
    "InOrder",
    "LettersWithinLimit",
    "NothingEarly",
    "NothingLate",
    "NothingLost",
    "NothingWhileOpen",
    "OnlyWhileOwned",
    "Violation",
    "all_guarantees",
    "broken",
]


def all_guarantees(
    visible: Mapping[Partition, Iterable[int]],
    *,
    strategy_length: int | None,
    limit: int | None = None,
    alive_within_s: float = 10.0,
) -> list[Guarantee]:
    """One of each that holds on any clock, for one log. Drop what a test does not ask for.

    `visible`: the offsets that a reader of each partition finds, or would have found before
    retention. `strategy_length`: how many delays the strategy has, None for one that repeats.
    `limit`: of dead letters in a row, as `DeadLetters` has it.
    """
    return [
        InOrder(visible),
        NothingLost(visible),
        NothingEarly(),
        NothingWhileOpen(),
        CommittedOnlyDone(visible),
        OnlyWhileOwned(),
        BoundedDuplicates(),
        Alive(alive_within_s),
        DeadLetteredOnlyWhenDue(strategy_length),
        BoundedState(),
        *([] if limit is None else [LettersWithinLimit(limit)]),
    ]
