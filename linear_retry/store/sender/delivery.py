"""Writes the due messages of a lease to Kafka, and says what became of them."""

from collections.abc import Mapping, Sequence

from linear_retry.kafka import KafkaError
from linear_retry.kafka.producers.batch_transactions import RefusedRecordsError
from linear_retry.records.record import OutgoingRecord
from linear_retry.store.records import StoredMessage
from linear_retry.store.sender.batch import (
    Accepted,
    Held,
    Outcome,
    Shortened,
    by_lane,
    outcomes,
)
from linear_retry.store.sender.destinations import Destinations
from linear_retry.store.sender.producers import LeaseProducers

_MISSING = "the topic does not exist, or this user may not describe it; create it, or ask for WRITE"


class Delivery:
    """Sends batches by the producers of the leases."""

    def __init__(self, producers: LeaseProducers, destinations: Destinations) -> None:
        self.producers, self._destinations = producers, destinations
        self._lengths: dict[int, int] = {}

    def send(self, number: int, messages: Sequence[StoredMessage]) -> list[Outcome]:
        """Sends messages of this lease, in the order of their lanes.

        Lanes without an outcome are sent again: one refused message fails the transaction of all.
        Raises `BrokerError` if no broker answers, and `FencedError` if another has the lease.
        """
        found: list[Outcome] = []
        sent: list[StoredMessage] = []
        for lane in by_lane(messages):
            if self._destinations.partitions(lane[0].destination) is None:
                found.append(Held(lane[0], _MISSING))
            else:
                sent += lane[: self._lengths.pop(lane[0].lane_id, len(lane))]
        return [*found, *(self._committed(number, sent) if sent else ())]

    def _committed(self, number: int, messages: Sequence[StoredMessage]) -> list[Outcome]:
        records = [self._record(each) for each in messages]
        try:
            self.producers.commit(number, records)
        except RefusedRecordsError as error:
            self._look_again(messages, error.refused)
            found = outcomes(messages, error.refused)
            self._lengths |= {
                each.lane_id: each.messages for each in found if isinstance(each, Shortened)
            }
            return found
        return [Accepted(messages)]

    def _record(self, message: StoredMessage) -> OutgoingRecord:
        """The record to send; by key, where the topic does not have its partition."""
        record = message.outgoing()
        if record.partition is None:
            return record
        partitions = self._destinations.partitions(record.topic)
        is_there = partitions is None or record.partition < partitions
        return record if is_there else record._replace(partition=None)

    def _look_again(
        self, messages: Sequence[StoredMessage], refused: Mapping[int, KafkaError]
    ) -> None:
        """Raises `BrokerError` if nobody answers: then no lane is to blame."""
        for topic in {messages[index].destination for index in refused}:
            self._destinations.forget(topic)
            self._destinations.partitions(topic)
