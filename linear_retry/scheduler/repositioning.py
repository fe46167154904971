"""Sets where the intake continues in a partition that no longer has the store's offset."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from linear_retry.errors import ConfigurationError
from linear_retry.kafka.topics.standalone_consumer import ANSWER_TIMEOUT_S, StandaloneConsumer
from linear_retry.scheduler.changes import Reason
from linear_retry.scheduler.same_topic import check_topic
from linear_retry.scope import Partition, Place, Scope
from linear_retry.store import audit, positions
from linear_retry.store.database import Database


@dataclass(frozen=True, slots=True)
class Repositioning:
    """Where the intake continued (None: nothing of the partition was stored), and where it does.

    The partition's messages begin at `first`, and end before `end`.
    """

    before: int | None
    offset: int
    first: int
    end: int


def reset_offset(
    database: Database,
    config: Mapping[str, Any],
    partition: Partition,
    offset: int | None,
    reason: Reason | None,
) -> Repositioning:
    """Sets it to `offset`; without a reason it only looks.

    The default is the offset nearest to the store's: the partition's first after its retention, its
    end after the end of its log was lost. Raises `ConfigurationError` for an offset or a partition
    that the topic does not have, without `offset` where the partition has the store's, and for a
    topic that was made again since; `UnknownTopicError`, `BrokerError` and `StoreError`.
    """
    topic, number = partition
    consumer = StandaloneConsumer(config, ANSWER_TIMEOUT_S)
    try:
        bounds, cluster = consumer.bounds(topic), consumer.cluster_id()
    finally:
        consumer.close()
    if number not in bounds:
        raise ConfigurationError(f"{topic} has no partition {number}; it has {len(bounds)}")
    first, end = bounds[number]
    is_change = reason is not None
    check_topic(database, cluster, [partition], config, binds=is_change)
    with database.begin() as connection:
        before = positions.read(database, connection, cluster, *partition, lock=is_change)
        to = _chosen(partition, offset, before, first, end)
        if reason is not None:
            positions.write(database, connection, cluster, *partition, to)
            details = {"partition": str(Scope(*partition)), "before": before, "offset": to}
            audit.write(
                database,
                connection,
                actor=reason.actor,
                action="reset-offset",
                count=0,
                details=details | {"comment": reason.comment},
            )
    return Repositioning(before, to, first, end)


def _chosen(
    partition: Partition, offset: int | None, before: int | None, first: int, end: int
) -> int:
    has = f"the partition's messages begin at offset {first} and end before {end}"
    if offset is None:
        if before is None:
            return first
        if first <= before <= end:
            raise ConfigurationError(
                f"{Place(*partition, before)}: nothing to reset: {has}, so the scheduler "
                "can go on; to go on elsewhere, name the place with --offset"
            )
        return first if before < first else end
    if not first <= offset <= end:
        raise ConfigurationError(
            f"{Place(*partition, offset)}: {has}; write an offset from {first} to {end}"
        )
    return offset
