"""Empties the store: everything that waits goes to a dead-letter topic."""

import time
import uuid
from collections.abc import Callable, Mapping
from threading import Event
from typing import Any

from linear_retry.errors import UsageError
from linear_retry.kafka.producers.acknowledged import control_config, write_all
from linear_retry.scheduler.letters import DRAINED, dead_letter
from linear_retry.scheduler.start import cluster_and_partitions
from linear_retry.store import lanes, messages
from linear_retry.store.database import Database
from linear_retry.store.lanes import LEASES
from linear_retry.store.records import Service, StoredMessage
from linear_retry.store.sender.identity import claim_cluster, transactional_prefix
from linear_retry.store.sender.leases import Leases
from linear_retry.store.sender.producers import LeaseProducers
from linear_retry.store.sender.sender import LEASE_S

_AT_ONCE = 500
_ACKNOWLEDGED_WITHIN_S = 60.0
_LOOK_AGAIN_S = 0.5


def drain(
    database: Database,
    config: Mapping[str, Any],
    service: Service,
    topic: str,
    progress: Callable[[int], object] = lambda _: None,
    *,
    lease_s: float = LEASE_S,
) -> int:
    """Sends every message that waits to `topic` as a dead letter, then deletes it.

    Returns how many; `progress` is called with the number so far. Ended in between, up to 500 are
    in the topic and in the store: the next call sends them again, with the same ids.

    Raises `UsageError` if somebody else sends from the store, which is not disturbed then,
    `ConfigurationError` for another cluster than the store's, `UnknownTopicError`, `BrokerError`
    and `StoreError`.
    """
    cluster, _ = cluster_and_partitions(config, topic)  # a producer would wait for it for long
    owner = f"drain-{uuid.uuid4()}"
    leases = Leases(database, service, owner, round(lease_s * 1000), shares=False)
    _wait_until_alone(leases, database, lease_s)
    keys, count = control_config(config, _ACKNOWLEDGED_WITHIN_S), 0
    try:
        leases.keep()
        _check(leases, database)
        _fence(database, config, service, cluster)
        while found := _next(database, service):
            letters = [dead_letter(each, topic, DRAINED, due_ms=each.due_ms) for each in found]
            write_all(keys, letters, _ACKNOWLEDGED_WITHIN_S)
            leases.keep()
            _check(leases, database)
            with database.begin() as connection:
                count += messages.remove(connection, [each.id for each in found])
            progress(count)
    finally:
        leases.give_back()
    return count


def _next(database: Database, service: Service) -> list[StoredMessage]:
    with database.reading() as connection:
        return messages.waiting(connection, service, limit=_AT_ONCE)


def _wait_until_alone(leases: Leases, database: Database, lease_s: float) -> None:
    """Waits for an instance that was killed. One that lives is not even asked for a lease."""
    until_s = time.monotonic() + 1.5 * lease_s
    while leases.are_others_alive():
        if time.monotonic() > until_s:
            raise _not_alone(database)
        Event().wait(_LOOK_AGAIN_S)


def _fence(database: Database, config: Mapping[str, Any], service: Service, cluster: str) -> None:
    """Ends the transactions of an instance that is only suspended: it would send them later."""
    with database.begin() as connection:
        claim_cluster(database, connection, cluster)
        prefix = transactional_prefix(database, connection, service)
        waiting = lanes.waiting(connection, service)
    producers = LeaseProducers(config, prefix, lambda: False)
    for number in sorted({lanes.lease_of(service, *each) for each in waiting}):
        producers.initialise(number)


def _check(leases: Leases, database: Database) -> None:
    if len(leases.numbers) < LEASES:
        raise _not_alone(database)


def _not_alone(database: Database) -> UsageError:
    return UsageError(
        f"store {database}: another process sends its messages, and some would be sent and "
        "dead-lettered; stop every scheduler, or outbox, on this store, then drain it"
    )
