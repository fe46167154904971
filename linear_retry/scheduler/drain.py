"""Empties the store: everything that waits goes to a dead-letter topic."""

import re
import time
import uuid
from collections.abc import Callable, Mapping
from threading import Event
from typing import Any

from linear_retry.errors import DeadLetterError, UsageError
from linear_retry.kafka.producers.acknowledged import control_config, write_all
from linear_retry.records.record import OutgoingRecord
from linear_retry.records.retry_headers import (
    DEAD_LETTER,
    GENERATION_MAX,
    HEADER_NAMES,
    RetryHeaders,
    read_retry_headers,
    write_retry_headers,
)
from linear_retry.scheduler.start import cluster_and_partitions
from linear_retry.store import messages
from linear_retry.store.database import Database
from linear_retry.store.lanes import LEASES
from linear_retry.store.records import Service, StoredMessage
from linear_retry.store.sender.leases import Leases
from linear_retry.store.sender.sender import LEASE_S

REASON = "drained"
_AT_ONCE = 500
_ACKNOWLEDGED_WITHIN_S = 60.0
_LOOK_AGAIN_S = 0.5
_OFFSET = re.compile(r"@([0-9]{1,19})$")


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

    Raises `UsageError` if somebody else sends from the store, `UnknownTopicError`, `BrokerError`
    and `StoreError`.
    """
    cluster_and_partitions(config, topic)  # a producer would wait for it for half a minute
    leases = Leases(database, service, f"drain-{uuid.uuid4()}", round(lease_s * 1000))
    _take_all(leases, database, lease_s)
    keys, count = control_config(config, _ACKNOWLEDGED_WITHIN_S), 0
    try:
        while found := _next(database, service):
            write_all(keys, [drained(each, topic) for each in found], _ACKNOWLEDGED_WITHIN_S)
            leases.keep()
            _check(leases, database)
            with database.begin() as connection:
                count += messages.remove(connection, [each.id for each in found])
            progress(count)
    finally:
        leases.give_back()
    return count


def drained(message: StoredMessage, topic: str) -> OutgoingRecord:
    """Returns the dead letter of a message that waits.

    A message that left a consumer's line keeps its identity and history. For one from elsewhere
    the group is the service's name: no consumer has it, so replay these with `--for-group ""`.
    """
    own = tuple(header for header in message.headers if header[0] not in HEADER_NAMES)
    try:
        history = read_retry_headers(dict(message.headers))
    except DeadLetterError:
        history = _foreign(message)
    letter = history._replace(send_to=DEAD_LETTER, reason=REASON, retry_at_ms=None)
    headers = (*own, *write_retry_headers(letter))
    return OutgoingRecord(topic, message.key, message.value, headers)


def _foreign(message: StoredMessage) -> RetryHeaders:
    offset = _OFFSET.search(message.origin or "")
    return RetryHeaders(
        retry_id=message.retry_id,
        generation=1,
        destination=message.destination,
        # Beyond every topic's: a replay then goes by key, as the message would have.
        original_partition=GENERATION_MAX if message.partition is None else message.partition,
        original_offset=0 if offset is None else int(offset[1]),
        original_timestamp_ms=-1,
        group_id=message.group_id or message.service,
        send_to=DEAD_LETTER,
        reason=REASON,
        failures=0,
        retry_at_ms=None,
        first_failure_ms=-1,
        last_failure_ms=-1,
        strategy="",
    )


def _next(database: Database, service: Service) -> list[StoredMessage]:
    with database.reading() as connection:
        return messages.waiting(connection, service, limit=_AT_ONCE)


def _take_all(leases: Leases, database: Database, lease_s: float) -> None:
    """Waits for the leases of an instance that was killed; one that lives keeps its own."""
    until_s = time.monotonic() + 1.5 * lease_s
    leases.keep()
    while len(leases.numbers) < LEASES and time.monotonic() < until_s:
        Event().wait(_LOOK_AGAIN_S)
        leases.keep()
    _check(leases, database)


def _check(leases: Leases, database: Database) -> None:
    if len(leases.numbers) < LEASES:
        leases.give_back()
        raise UsageError(
            f"store {database}: another process sends its messages, and some would be sent and "
            "dead-lettered; stop every scheduler, or outbox, on this store, then drain it"
        )
