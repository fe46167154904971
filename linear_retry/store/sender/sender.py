"""Sends the messages of one service that are due, as long as it runs."""

import time
import uuid
from collections import defaultdict
from collections.abc import Callable, Mapping
from contextlib import suppress
from threading import Event
from typing import Any, Literal

from linear_retry.errors import BrokerError, FencedError, StoreError
from linear_retry.kafka import Producer
from linear_retry.store import lanes, messages
from linear_retry.store.database import Database
from linear_retry.store.records import OnRefused, Service, StoredMessage
from linear_retry.store.sender.batch import Accepted, Outcome, by_lane
from linear_retry.store.sender.clock import ForwardClock
from linear_retry.store.sender.delivery import Deliveries, Delivery
from linear_retry.store.sender.identity import claim_cluster, transactional_prefix
from linear_retry.store.sender.known_topics import KnownTopics
from linear_retry.store.sender.leases import Leases, Renewal
from linear_retry.store.sender.low_due import raise_low_due
from linear_retry.store.sender.producers import LeaseProducers
from linear_retry.store.sender.progress import (
    LeasesTaken,
    Listener,
    Resumed,
    Waiting,
    log_progress,
)
from linear_retry.store.sender.settlement import (
    Delays,
    Settlement,
    until_it_works,
)

LEASE_S = 10.0
"""An instance that was killed is replaced after this time."""

_KEEPS_A_LEASE = 5
_LOW_DUE_EVERY_S = 1.0
_AWAY_S = 1.0
_IDLE_S = 0.1
_A_FEW = 500
_GATHER_S = 0.02
# Longer than a transaction lasts; shorter than other lanes may wait for one that fails.
_BATCH_S = 0.25
_CLOSE_S = 10.0


class Sender:
    """Sends what is due in the lanes of its leases: each lane in order, each batch once.

    A batch is read, written to Kafka in a transaction for each lease, and only then deleted. A
    process that is killed in between leaves a batch that is sent again, with the same `retry-id`s.
    No database transaction is open while Kafka is waited for. Belongs to one thread; the batches of
    its leases are sent by others.
    """

    def __init__(
        self,
        database: Database,
        config: Mapping[str, Any],
        service: Service,
        *,
        delays: Delays = until_it_works,
        on_refused: OnRefused = "dead-letter",
        listener: Listener = log_progress,
        lease_s: float = LEASE_S,
        producer: Callable[..., Any] = Producer,
    ) -> None:
        """Connects to nothing yet. `config` has librdkafka's keys for brokers and security.

        `delays` are the waits of a lane whose destination is missing or refuses its messages.
        """
        self._database, self._config, self._service = database, config, service
        self._listener, self._make = listener, producer
        owner, length_ms = str(uuid.uuid4()), round(lease_s * 1000)
        self._leases = Leases(database, service, owner, length_ms, marks=database.local_directory)
        # A scheduled message is never sent early, whatever happens to the clock.
        self._clock = ForwardClock(database) if service == "outbox" else database
        self._settlement = Settlement(database, delays, self._clock, on_refused=on_refused)
        self._keep_every_s, self._keep_at_s = lease_s / _KEEPS_A_LEASE, 0.0
        self._renewal = Renewal(self._leases, self._keep_every_s)
        self._lock_ms = round(lease_s * 1000) // 2
        self._has_begun = False
        self._stop = Event()
        self._closing = False
        self._deliveries: Deliveries | None = None
        self._outcomes: list[Outcome] = []
        self._sent_lanes: set[int] = set()
        self._low_due_at_s = 0.0

    def run(self, stop: Event) -> None:
        """Sends until `stop` is set, then frees the leases; an outage is waited for.

        Ends within seconds of `stop`. Raises `ConfigurationError` for a key that librdkafka
        refuses, and for a store that is bound to another cluster.
        """
        self._stop = stop
        with self._renewal.running():
            try:
                self._send_until(stop)
            finally:
                self.close()

    def _send_until(self, stop: Event) -> None:
        away: Literal["brokers", "store"] | None = None
        while not stop.is_set():
            try:
                sent = self.step()
            except (BrokerError, StoreError) as error:
                away = self._told_away(error, away)
                stop.wait(_AWAY_S)
                continue
            if away is not None and not self._is_busy():
                self._listener(Resumed(self._service, away))
                away = None
            # A few at a time would cost as many transactions as thousands.
            stop.wait(_IDLE_S if sent == 0 else _GATHER_S if sent < _A_FEW else 0.0)

    def step(self) -> int:
        """Sends what is due now, up to a batch; returns the number of messages sent.

        Raises `BrokerError` or `StoreError` if either does not answer: the next step continues.
        """
        self._renewal.note_step()
        # First what was sent: while the leases cannot be kept, others may take them and send it.
        sent = 0 if self._deliveries is None else self._ended(self._deliveries, 0.0)
        deliveries = self._deliveries or self._connected()
        self._keep_leases(deliveries)
        self._begin(deliveries)
        sent += self._ended(deliveries, _BATCH_S)
        self._raise_low_due()
        return sent

    def close(self) -> None:
        """Frees the leases, so that another instance need not wait for them."""
        self._closing = True
        with suppress(StoreError):  # they end by themselves
            if self._deliveries is not None:
                self._collect(self._deliveries, _CLOSE_S)
                self._deliveries.close()
            self._settle()
            self._leases.give_back()
        self._deliveries = None

    def _connected(self) -> Deliveries:
        topics = KnownTopics(self._config, self._make)
        cluster_id = topics.cluster_id()
        with self._database.begin() as connection:
            claim_cluster(self._database, connection, cluster_id)
            prefix = transactional_prefix(self._database, connection, self._service)
        producers = LeaseProducers(self._config, prefix, self._is_stopping, self._make)
        self._deliveries = Deliveries(Delivery(producers, topics))
        return self._deliveries

    def _is_busy(self) -> bool:
        return self._deliveries is not None and bool(self._deliveries.busy)

    def _is_stopping(self) -> bool:
        return self._closing or self._stop.is_set()

    def _keep_leases(self, deliveries: Deliveries) -> None:
        now_s = time.monotonic()
        if now_s < self._keep_at_s:
            return
        taken = self._leases.keep(deliveries.busy)
        self._keep_at_s = now_s + self._keep_every_s
        deliveries.keep(self._leases.numbers - taken)
        if taken or not self._has_begun:
            self._has_begun = True
            self._listener(LeasesTaken(self._service, tuple(sorted(taken))))
        self._prepare(deliveries)

    def _prepare(self, deliveries: Deliveries) -> None:
        """Initialises the producers that will be needed: what is due first would wait for them."""
        with self._database.reading() as connection:
            waiting = lanes.waiting(connection, self._service)
        needed = {lanes.lease_of(self._service, *lane) for lane in waiting}
        for number in self._leases.numbers & needed - deliveries.busy:
            if not deliveries.is_ready(number):
                self._initialise(deliveries, number)

    def _initialise(self, deliveries: Deliveries, number: int) -> None:
        if self._leases.retake(number):
            deliveries.initialise(number)

    def _due(self, busy: frozenset[int]) -> Mapping[int, list[StoredMessage]]:
        """What is due, by lease. Read in one snapshot with the leases, *after* `initialise`.

        Without that look, one that was suspended before its `initialise` would fence its successor
        and send what that has sent.
        """
        with self._database.reading() as connection:
            free = self._leases.still_held(connection) - busy
            now_ms = self._clock.now_ms(connection)
            due = messages.due(self._database, connection, self._service, free, now_ms=now_ms)
        found: dict[int, list[StoredMessage]] = defaultdict(list)
        for lane in by_lane(due):
            first = lane[0]
            found[lanes.lease_of(first.service, first.destination, first.slot)] += lane
        return found

    def _begin(self, deliveries: Deliveries) -> None:
        for number, due in self._due(deliveries.busy).items():
            if deliveries.is_ready(number):
                deliveries.send(number, due)
            else:
                # What is due is read again: its earlier holder may just have sent it.
                self._initialise(deliveries, number)

    def _ended(self, deliveries: Deliveries, within_s: float) -> int:
        """Writes what has ended `within_s`; returns the number of messages sent."""
        errors = self._collect(deliveries, within_s)
        sent = sum(len(each.messages) for each in self._outcomes if isinstance(each, Accepted))
        self._settle()
        if errors:
            raise errors[0]
        return sent

    def _collect(self, deliveries: Deliveries, within_s: float) -> list[BaseException]:
        """Takes the outcomes of what has ended `within_s`; returns the errors of the others.

        Whatever the error of one lease is: what another has sent would be sent again.
        """
        errors: list[BaseException] = []
        for each in deliveries.ended(within_s):
            error = each.exception()
            if error is None:
                self._outcomes += each.result()
            elif not isinstance(error, FencedError):
                errors.append(error)
            # Fenced: another has it, or it took too long. The next step finds out.
        return errors

    def _settle(self) -> None:
        """Writes what became of messages; what cannot be written is kept for the next time."""
        if not self._outcomes:
            return
        with self._database.begin() as connection:
            self._database.limit_locks(connection, self._lock_ms)
            events = self._settlement.write(connection, self._outcomes)
        for each in self._outcomes:
            if isinstance(each, Accepted):
                self._sent_lanes |= {message.lane_id for message in each.messages}
        self._outcomes = []
        for event in events:
            self._listener(event)

    def _raise_low_due(self) -> None:
        now_s = time.monotonic()
        if self._sent_lanes and now_s >= self._low_due_at_s:
            raise_low_due(self._database, self._sent_lanes)
            self._sent_lanes = set()
            self._low_due_at_s = now_s + _LOW_DUE_EVERY_S

    def _told_away(
        self, error: BrokerError | StoreError, already: Literal["brokers", "store"] | None
    ) -> Literal["brokers", "store"]:
        away: Literal["brokers", "store"] = "store" if isinstance(error, StoreError) else "brokers"
        if away != already:
            self._listener(Waiting(self._service, away, str(error)))
        return away
