"""Asks the brokers for an inbox, tells it what is done without a handler, and watches it."""

from collections.abc import Collection, Mapping

from linear_retry.consumer.partitions.flow_control import FlowControl
from linear_retry.consumer.settings.consumer_config import ConsumerConfig
from linear_retry.consumer.settings.inbox import AsksBrokers, InboxPlaces
from linear_retry.kafka import KafkaException
from linear_retry.kafka.consumer.client import Client
from linear_retry.kafka.topics.description import Topics
from linear_retry.records.commit_note import note_beside
from linear_retry.retry.clock import NowS
from linear_retry.scope import Partition

LOOK_EVERY_S = 10.0
TELL_EVERY_S = 1.0
"""Where keys are the order: the rows of those that are done before the place are removed then."""


def asks_brokers(config: ConsumerConfig, client: Client) -> AsksBrokers:
    """Returns what an inbox asks at an assignment; brokers before Kafka 2.8 have no topic ids."""
    topics = Topics(config.settings.connection, admin=config.dependencies.admin)

    def topic_ids(names: Collection[str]) -> Mapping[str, str]:
        return {name: topics.id_of(name) or name for name in names}

    def has_done(partition: Partition, offset: int, lane: str) -> bool:
        answer = client.notes([partition])[partition]
        if not isinstance(answer, tuple):
            raise KafkaException(answer)
        committed, text, _ = answer
        note = note_beside((committed, text), config.settings.group_id, partition)
        return committed > offset or (note is not None and note.has_done(offset, lane))

    return AsksBrokers(topic_ids, has_done)


class InboxWatch:
    """Tells an inbox now and then what is done: all before some offset, whatever its keys.

    Where retention removes a transaction's end, a place before it would look like lost messages.
    And gives back partitions whose place is not what it was: they are read again from where it is
    by then.
    """

    def __init__(
        self, inbox: InboxPlaces, flow_control: FlowControl, now_s: NowS, *, every_s: float
    ) -> None:
        self._inbox = inbox
        self._flow_control = flow_control
        self._now_s = now_s
        self._every_s = every_s
        self._look_at_s = 0.0
        self.due_at_s = 0.0

    def tick(self) -> None:
        """Tells, and every 10 s it looks before."""
        now_s = self._now_s()
        self.due_at_s = now_s + self._every_s
        unplaced = self._flow_control.unplaced
        starts = self._flow_control.offsets.starts().items()
        placed = {key: at for key, at in starts if at is not None and key not in unplaced}
        if now_s >= self._look_at_s:
            self._look_at_s = now_s + LOOK_EVERY_S
            for partition, why in self._inbox.lost([*placed]).items():
                self._flow_control.mark_lost([partition], why)
                del placed[partition]
        self._inbox.passed(placed)
