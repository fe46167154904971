"""Asks the brokers for an inbox, and tells it what is done without a handler."""

from collections.abc import Collection, Mapping

from linear_retry.consumer.partitions.offsets import Offsets
from linear_retry.consumer.settings.consumer_config import ConsumerConfig
from linear_retry.consumer.settings.inbox import AsksBrokers, InboxPlaces
from linear_retry.kafka.consumer.client import Client
from linear_retry.kafka.topics.description import Topics
from linear_retry.retry.clock import NowS

_TELL_EVERY_S = 10.0


def asks_brokers(config: ConsumerConfig, client: Client) -> AsksBrokers:
    """Returns what an inbox asks at an assignment; brokers before Kafka 2.8 have no topic ids."""
    topics = Topics(config.settings.connection, admin=config.dependencies.admin)

    def topic_ids(names: Collection[str]) -> Mapping[str, str]:
        return {name: topics.id_of(name) or name for name in names}

    return AsksBrokers(topic_ids, client.committed)


class PassedOffsets:
    """Tells an inbox now and then what is done without a handler, such as a transaction's end.

    Where retention removes that, a place before it would look like lost messages.
    """

    def __init__(self, inbox: InboxPlaces, offsets: Offsets, now_s: NowS) -> None:
        self._inbox = inbox
        self._offsets = offsets
        self._now_s = now_s
        self.due_at_s = 0.0

    def tick(self) -> None:
        """Tells it; due every 10 s."""
        self.due_at_s = self._now_s() + _TELL_EVERY_S
        starts = self._offsets.starts()
        self._inbox.passed({key: offset for key, offset in starts.items() if offset is not None})
