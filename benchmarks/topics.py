"""Produces the messages that the benchmarks read."""

import itertools
from collections.abc import Sequence
from typing import Any

from linear_retry.records.text import Header
from tests.real_kafka import RealKafka

VALUE_BYTES = 200
PARTITIONS = 4

_numbers = itertools.count(1)


def filled_topic(
    kafka: RealKafka,
    messages: int,
    partitions: int = PARTITIONS,
    headers: Sequence[Header] = (),
    keys: int = 0,
) -> str:
    """A new topic of `messages` messages of 200 bytes, dealt out in turn.

    They have `keys` different keys, in turn; 0: none has a key.
    """
    topic = f"messages-{next(_numbers)}"
    kafka.create_topic(topic, partitions)
    value = b"x" * VALUE_BYTES
    kafka.produce(
        topic,
        (
            (number % partitions, b"%d" % (number % keys) if keys else None, value, headers)
            for number in range(messages)
        ),
    )
    return topic


def config_of_new_group(kafka: RealKafka, **more: Any) -> dict[str, Any]:
    """Reads from the beginning, as a group that nobody has been in."""
    group = f"group-{next(_numbers)}"
    return kafka.client_settings(**{"group.id": group, "auto.offset.reset": "earliest"} | more)
