"""A cluster of which some topics have no leader."""

from collections.abc import Collection
from functools import partial
from typing import Any

from linear_retry.kafka import KafkaError, Producer
from linear_retry.spark.scheduler.producer import TaskProducer
from linear_retry.spark.scheduler.sender import Sender, Targets

TIMED_OUT = "Local: Message timed out (_MSG_TIMED_OUT)"


class _WithoutLeader:
    """A producer for which these topics have no leader, so that their records time out."""

    def __init__(self, config: dict[str, Any], stuck: Collection[str]) -> None:
        self._producer = Producer(config)
        self._stuck = stuck

    def __getattr__(self, name: str) -> Any:
        return getattr(self._producer, name)

    def produce(self, topic: str, value: Any, key: Any, **more: Any) -> None:
        if topic in self._stuck:
            more["on_delivery"](KafkaError(KafkaError._MSG_TIMED_OUT), None)
        else:
            self._producer.produce(topic, value, key, **more)


def partly_stuck(targets: Targets, stuck: Collection[str]) -> Sender:
    """A sender for which the topics in `stuck` have no leader."""
    client = partial(_WithoutLeader, stuck=stuck)
    return Sender(targets, partial(TaskProducer, producer=client))
