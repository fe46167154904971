"""The guarantees of a consumer that keeps order: one object for each."""

from collections.abc import Iterable, Mapping

from linear_retry.scope import Partition
from linear_retry.testing.guarantees.commits import CommittedOnlyDone, OnlyWhileOwned
from linear_retry.testing.guarantees.dead_letters import DeadLetteredOnlyWhenDue, LettersWithinLimit
from linear_retry.testing.guarantees.delivery import (
    BoundedDuplicates,
    InOrder,
    NothingLost,
    OneAtATime,
)
from linear_retry.testing.guarantees.guarantee import BoundedState, Guarantee
from linear_retry.testing.guarantees.lanes import Keys
from linear_retry.testing.guarantees.liveness import LiveLineNeverWaits, Liveness
from linear_retry.testing.guarantees.open_circuits import (
    NothingEarly,
    NothingWhileHeld,
    NothingWhileOpen,
)
from linear_retry.testing.guarantees.retries import (
    InOnePlace,
    RetriedWhenDue,
    Retries,
    WithinSequence,
)


def all_guarantees(
    visible: Mapping[Partition, Iterable[int]],
    *,
    strategy_length: int | None,
    max_elapsed: bool = False,
    limit: int | None = None,
    recovery_limit: int | None = None,
    alive_within_s: float = 10.0,
    retries: Retries | None = None,
    retry_strategy_length: int | None = 0,
    skew_s: float = 0.0,
    batches: bool = False,
    keys: Keys | None = None,
) -> list[Guarantee]:
    """One of each guarantee that holds on any clock, for one log. Leave out those not needed.

    `visible`: the offsets that a reader of each partition finds, or would have found before
    retention. `strategy_length`: the number of delays in the strategy, None for one that repeats.
    `max_elapsed`: whether the strategy has one. `limit` and `recovery_limit`: the limits of
    messages in a row of `DeadLetters` and of `Recovery`. `retries`: the `RetryTopics` of a log with
    both lines of a group; its topics are in `visible` then, and `retry_strategy_length` is of the
    retry line's own strategy. By `skew_s` the broker's clock may be ahead of the reader's, as in
    `RetriedWhenDue`. `batches`: the log is of `run_batches`. `keys`: the key of each message, for
    `scope="key"`, which stops no partition: of such a log there is no `Liveness`.
    """
    return [
        InOrder(visible, keys),
        OneAtATime(keys),
        NothingLost(visible),
        NothingEarly(by_key=keys is not None),
        CommittedOnlyDone(visible),
        OnlyWhileOwned(),
        BoundedDuplicates(),
        *_of_circuits(keys, alive_within_s, retries),
        DeadLetteredOnlyWhenDue(
            strategy_length,
            max_elapsed=max_elapsed,
            retries=retries,
            retry_strategy_length=retry_strategy_length,
            batches=batches,
            by_key=keys is not None,
        ),
        BoundedState(),
        LettersWithinLimit(
            limit,
            retry_limit=None if retries is None else retries.limit,
            recovery_limit=recovery_limit,
        ),
        *([] if retries is None else _of_retry_topics(retries, skew_s)),
    ]


def _of_circuits(
    keys: Keys | None, alive_within_s: float, retries: Retries | None
) -> list[Guarantee]:
    if keys is not None:
        return [NothingWhileHeld(keys)]
    live = [] if retries is None else [LiveLineNeverWaits(retries, alive_within_s)]
    return [NothingWhileOpen(), Liveness(alive_within_s, retries), *live]


def _of_retry_topics(retries: Retries, skew_s: float) -> list[Guarantee]:
    return [RetriedWhenDue(retries, skew_s=skew_s), WithinSequence(retries), InOnePlace()]
