"""Lets what the client delivers join the read-ahead, and deals with the errors among it."""

from __future__ import annotations

from linear_retry.consumer.partitions.assignment import Assignment
from linear_retry.consumer.partitions.client_errors import ClientErrors
from linear_retry.consumer.partitions.offset_check import OffsetCheck, offset_of
from linear_retry.consumer.partitions.offset_reset import OffsetReset
from linear_retry.consumer.partitions.read_ahead import ReadAhead, is_about_client, partition_of
from linear_retry.consumer.watchdogs.unreadable_batches import UnreadableBatches
from linear_retry.kafka import KafkaError, Message
from linear_retry.kafka.topics.batch_end import is_unreadable


class DeliveryFilter:
    """Every arrival passes here: pause() is no guarantee, and neither is a position.

    `assign(); pause()` inside `on_assign` let a whole partition through 6 times in 346,400
    (librdkafka #5591): what belongs to an open circuit is dropped before the handler.
    """

    def __init__(
        self,
        assignment: Assignment,
        read_ahead: ReadAhead,
        offset_check: OffsetCheck,
        offset_reset: OffsetReset,
        unreadable: UnreadableBatches,
        errors: ClientErrors,
    ) -> None:
        self._assignment = assignment
        self._read_ahead = read_ahead
        self._offset_check = offset_check
        self._offset_reset = offset_reset
        self._unreadable = unreadable
        self._errors = errors

    def accept(self, arrivals: list[Message]) -> None:
        """Let the messages among these join the read-ahead; errors are dealt with.

        Raises what cannot be mended (`raise_if_fatal`), and `DataLossError`.
        """
        if self._errors.awaits_reason and not any(map(is_about_client, arrivals)):
            self._errors.raise_if_unexplained()
        self._offset_reset.tick()
        # The usual case must cost next to nothing.
        if not any(map(Message.error, arrivals)) and self._offset_check.trusts(arrivals):
            self._read_ahead.keep(arrivals)
            return
        serial = self._assignment.serial
        for message in arrivals:
            error, partition = message.error(), partition_of(message)
            if error is not None and is_about_client(message):
                self._errors.report(error, message.topic())
            elif partition not in self._assignment:
                continue  # given up by us: whoever has it reads it
            elif error is not None and is_unreadable(error):
                if not self._assignment.is_stale(partition, serial):
                    self._unreadable.stop(partition, offset_of(message), error)
            elif error is not None and error.code() == KafkaError._AUTO_OFFSET_RESET:
                if not self._assignment.is_stopped(partition):
                    self._offset_reset.lost(partition, message.offset())
            elif self._offset_check.accept(message, partition, serial):
                self._unreadable.note_delivered(partition, offset_of(message))
