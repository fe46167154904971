"""Asks the brokers for an inbox, tells it what is done without a handler, and watches it."""

from collections.abc import Collection, Mapping

from linear_retry.consumer.partitions.flow_control import FlowControl
from linear_retry.consumer.settings.consumer_config import ConsumerConfig
from linear_retry.consumer.settings.inbox import AsksBrokers, InboxPlaces
from linear_retry.kafka.consumer.client import Client
from linear_retry.kafka.topics.description import Topics
from linear_retry.retry.clock import NowS

_LOOK_EVERY_S = 10.0


def asks_brokers(config: ConsumerConfig, client: Client) -> AsksBrokers:
    """Returns what an inbox asks at an assignment; brokers before Kafka 2.8 have no topic ids."""
    topics = Topics(config.settings.connection, admin=config.dependencies.admin)

    def topic_ids(names: Collection[str]) -> Mapping[str, str]:
        return {name: topics.id_of(name) or name for name in names}

    return AsksBrokers(topic_ids, client.committed)


class InboxWatch:
    """Tells an inbox now and then what is done without a handler, such as a transaction's end.

    Where retention removes that, a place before it would look like lost messages. And gives back
    partitions whose place is not what it was: they are read again from where it is by then.
    """

    def __init__(self, inbox: InboxPlaces, flow_control: FlowControl, now_s: NowS) -> None:
        self._inbox = inbox
        self._flow_control = flow_control
        self._now_s = now_s
        self.due_at_s = 0.0

    def tick(self) -> None:
        """Looks, and tells; due every 10 s."""
        self.due_at_s = self._now_s() + _LOOK_EVERY_S
        unplaced = self._flow_control.unplaced
        starts = self._flow_control.offsets.starts().items()
        placed = {key: at for key, at in starts if at is not None and key not in unplaced}
        for partition, why in self._inbox.lost([*placed]).items():
            self._flow_control.mark_lost([partition], why)
            del placed[partition]
        self._inbox.passed(placed)
