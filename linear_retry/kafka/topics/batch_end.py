"""Finds the end of a batch that librdkafka cannot read."""

from collections.abc import Callable, Generator, Mapping
from typing import Any

from confluent_kafka import Consumer, KafkaError, Message, TopicPartition

from linear_retry.kafka.consumer.settings import without_group
from linear_retry.kafka.quiet import close_in_thread
from linear_retry.scope import Partition

_UNREADABLE = frozenset(
    {
        KafkaError._BAD_MSG,
        KafkaError._BAD_COMPRESSION,
        KafkaError._NOT_IMPLEMENTED,
        KafkaError._UNDERFLOW,
        KafkaError.INVALID_MSG,
        KafkaError.MSG_SIZE_TOO_LARGE,
    }
)
# After the partition's end there is no batch.
_READABLE = (KafkaError._PARTITION_EOF, KafkaError._AUTO_OFFSET_RESET)


def is_unreadable(error: KafkaError) -> bool:
    """Whether it reports that a partition's next batch cannot be read.

    librdkafka 2.16 cannot be trusted after this error: with `check.crcs` it may request a garbage
    offset, or the same batch thousands of times a second.
    """
    return error.code() in _UNREADABLE


class BatchEnd:
    """Searches with clients that join no group.

    Nothing reveals where the batch ends, so other offsets are tried: if one is inside, the broker
    returns the same batch, whose first offset is in librdkafka's error.
    """

    def __init__(self, config: Mapping[str, Any], consumer: Callable[..., Any] = Consumer) -> None:
        """`config` is that of the partition's consumer."""
        self._config = {"log_level": 0} | without_group(config)
        self._make = consumer

    def search(self, partition: Partition, offset: int) -> Generator[None, None, int]:
        """Returns the first offset after the batch that contains `offset`; `offset` if readable.

        Yields while it waits.
        """
        batch = yield from self._unreadable_at(partition, offset)
        if batch is None:
            return offset
        inside: int = offset
        outside: int | None = None
        while outside is None or outside - inside > 1:
            at = 2 * inside - offset + 1 if outside is None else (inside + outside) // 2
            found = yield from self._unreadable_at(partition, at)
            if found is None or found > batch:
                outside = at
            else:
                inside = at
        return outside

    def _unreadable_at(
        self, partition: Partition, offset: int
    ) -> Generator[None, None, int | None]:
        """Returns the beginning of the unreadable batch there; None if something can be read.

        With a new client: librdkafka's errors about an assignment outlive it.
        """
        handle = self._make(self._config)
        try:
            handle.assign([TopicPartition(*partition, offset)])
            while True:
                found: Message | None = handle.poll(0)
                error = None if found is None else found.error()
                if found is None or found.topic() != partition[0]:
                    yield
                elif error is not None and is_unreadable(error):
                    return found.offset()
                elif error is None or error.code() in _READABLE:
                    return None
        finally:
            close_in_thread(handle, "batch end")
