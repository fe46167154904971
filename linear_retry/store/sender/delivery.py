"""Writes the due messages of several leases to Kafka, and says what became of them."""

from collections.abc import Callable, Iterable, Mapping, Sequence, Set
from concurrent.futures import Future, ThreadPoolExecutor, wait
from itertools import takewhile

from linear_retry.kafka import KafkaError
from linear_retry.kafka.producers.batch_transactions import RefusedRecordsError
from linear_retry.records.record import OutgoingRecord
from linear_retry.records.topics.names import is_topic_name
from linear_retry.store.lanes import LEASES
from linear_retry.store.records import StoredMessage
from linear_retry.store.sender.batch import (
    Accepted,
    Dead,
    Held,
    Narrowed,
    Outcome,
    by_lane,
    outcomes,
)
from linear_retry.store.sender.known_topics import KnownTopics
from linear_retry.store.sender.producers import LeaseProducers

_MISSING = "the topic does not exist, or this user may not describe it; create it, or ask for WRITE"
_NO_NAME = "no topic can have this name: correct it where the message is produced"


class Delivery:
    """Sends batches by the producers of the leases."""

    def __init__(self, producers: LeaseProducers, topics: KnownTopics) -> None:
        self.producers, self._topics = producers, topics
        self._narrowed: dict[tuple[int, str], frozenset[int]] = {}
        """By lease and destination: all that is sent until it is accepted, or one of it dies."""

    def send(self, number: int, messages: Sequence[StoredMessage]) -> list[Outcome]:
        """Sends messages of this lease, in the order of their lanes.

        What has no outcome is sent again: one refused message fails the transaction of all.
        Raises `BrokerError` if no broker answers, and `FencedError` if another has the lease.
        """
        found: list[Outcome] = []
        sent: list[StoredMessage] = []
        lanes = by_lane(messages)
        self._forget_stale(number, {lane[0].id for lane in lanes})
        for lane in lanes:
            if not is_topic_name(lane[0].destination):
                # Brokers answer with an error, as if they were away: the whole lease would wait.
                found += (Dead(each, "refused", _NO_NAME) for each in lane)
            elif self._topics.partitions(lane[0].destination) is None:
                found.append(Held(lane[0], _MISSING))
            else:
                sent += self._of_lane(number, lane)
        return [*found, *(self._committed(number, sent) if sent else ())]

    def _of_lane(self, number: int, lane: Sequence[StoredMessage]) -> Iterable[StoredMessage]:
        ids = self._narrowed.get((number, lane[0].destination))
        return lane if ids is None else takewhile(lambda each: each.id in ids, lane)

    def _forget_stale(self, number: int, heads: Set[int]) -> None:
        """Forgets what can no longer be sent first: it was deleted, or an earlier one has come."""
        for key, ids in [*self._narrowed.items()]:
            if key[0] == number and not ids & heads:
                self._narrowed.pop(key)

    def _committed(self, number: int, messages: Sequence[StoredMessage]) -> list[Outcome]:
        records = [self._record(each) for each in messages]
        try:
            self.producers.commit(number, records)
        except RefusedRecordsError as error:
            self._look_again(messages, error.refused)
            found = outcomes(messages, error.refused)
            self._narrow(number, {messages[place].destination for place in error.refused}, found)
            return found
        self._narrow(number, {each.destination for each in messages}, [])
        return [Accepted(messages)]

    def _narrow(self, number: int, destinations: Set[str], found: Sequence[Outcome]) -> None:
        for destination in destinations:
            self._narrowed.pop((number, destination), None)
        for each in found:
            if isinstance(each, Narrowed):
                self._narrowed[number, each.destination] = each.ids

    def _record(self, message: StoredMessage) -> OutgoingRecord:
        """The record to send; by key, where the topic does not have its partition."""
        record = message.outgoing()
        if record.partition is None:
            return record
        partitions = self._topics.partitions(record.topic)
        is_there = partitions is None or record.partition < partitions
        return record if is_there else record._replace(partition=None)

    def _look_again(
        self, messages: Sequence[StoredMessage], refused: Mapping[int, KafkaError]
    ) -> None:
        """Raises `BrokerError` if nobody answers: then no lane is to blame."""
        for topic in {messages[index].destination for index in refused}:
            self._topics.forget(topic)
            self._topics.partitions(topic)


class Deliveries:
    """What is under way: at most one batch of each lease, in a thread of its own.

    A destination without a leader, or with too few replicas, fails after seconds only: meanwhile
    the other leases' messages must not wait.
    """

    def __init__(self, delivery: Delivery) -> None:
        self._delivery = delivery
        self._threads = ThreadPoolExecutor(LEASES, "linear_retry sender")
        self._under_way: dict[int, Future[list[Outcome]]] = {}

    @property
    def busy(self) -> frozenset[int]:
        """The leases of which something is under way."""
        return frozenset(self._under_way)

    def is_ready(self, number: int) -> bool:
        return self._delivery.producers.is_ready(number)

    def initialise(self, number: int) -> None:
        """Begins to fence the earlier producers of this lease. Take it first."""

        def call() -> list[Outcome]:
            self._delivery.producers.initialise(number)
            return []

        self._begin(number, call)

    def send(self, number: int, messages: Sequence[StoredMessage]) -> None:
        """Begins to send these of a lease that is ready."""
        self._begin(number, lambda: self._delivery.send(number, messages))

    def keep(self, numbers: frozenset[int]) -> None:
        """Drops the producers of all other leases."""
        self._delivery.producers.keep(numbers)

    def ended(self, within_s: float) -> list[Future[list[Outcome]]]:
        """Waits for all that is under way, but no longer than that; returns what has ended."""
        wait(self._under_way.values(), within_s)
        done = [number for number, each in self._under_way.items() if each.done()]
        return [self._under_way.pop(number) for number in done]

    def close(self) -> None:
        """Returns at once: a thread that still waits ends by itself."""
        self._threads.shutdown(wait=False)

    def _begin(self, number: int, call: Callable[[], list[Outcome]]) -> None:
        self._under_way[number] = self._threads.submit(call)
