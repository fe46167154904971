"""Measures what an outbox costs over a producer, while Kafka takes everything."""

import tempfile
import time
from collections.abc import Callable
from itertools import count
from pathlib import Path

from confluent_kafka import Producer

from benchmarks.figures import Figure, Result, Target
from benchmarks.scale import Scale
from benchmarks.topics import PARTITIONS, VALUE_BYTES
from linear_retry.outbox import Outbox
from tests.real_kafka import RealKafka

_COST = Target("at most", 2.0)
_POLL_EVERY = 100
_VALUE = b"x" * VALUE_BYTES
_KEYS = [b"k%d" % number for number in range(1_000)]
_numbers = count(1)


def run(kafka: RealKafka, scale: Scale) -> Result:
    """The CPU time of the thread that produces and polls: both take turns."""
    bare_us, outbox_us = [], []
    topic = f"outbox-produce-{next(_numbers)}"
    kafka.create_topic(topic, PARTITIONS)
    for _ in range(scale.rounds):
        bare_us.append(_bare_us(kafka, topic, scale.sent_messages))
        outbox_us.append(_outbox_us(kafka, topic, scale.sent_messages))
    cost_us = tuple(ours - bare for ours, bare in zip(outbox_us, bare_us, strict=True))
    return Result(
        (
            Figure("producer", "us/message", tuple(bare_us)),
            Figure("outbox", "us/message", tuple(outbox_us)),
            Figure("outbox over producer", "us/message", cost_us, _COST),
        ),
        notes=(f"{scale.sent_messages:,} messages of {VALUE_BYTES} bytes, {len(_KEYS):,} keys",),
    )


def _bare_us(kafka: RealKafka, topic: str, messages: int) -> float:
    producer = Producer(kafka.client_settings(**{"linger.ms": 5, "enable.idempotence": True}))
    producer.list_topics(topic, timeout=10.0)

    def produce(key: bytes) -> None:
        producer.produce(topic, _VALUE, key, on_delivery=_reported)

    return _us(messages, produce, lambda: producer.poll(0), producer.flush)


def _reported(_: object, __: object) -> None:
    """A report costs a call, as any producer's that looks for failures."""


def _outbox_us(kafka: RealKafka, topic: str, messages: int) -> float:
    with tempfile.TemporaryDirectory() as directory:
        store = f"sqlite:///{Path(directory) / 'store.sqlite3'}"
        with Outbox(kafka.client_settings(), store=store, sender=False) as outbox:
            outbox.produce(topic, _VALUE)
            outbox.flush()
            return _us(
                messages, lambda key: outbox.produce(topic, _VALUE, key), outbox.poll, outbox.flush
            )


def _us(
    messages: int,
    produce: Callable[[bytes], object],
    poll: Callable[[], object],
    flush: Callable[[], object],
) -> float:
    began_s = time.thread_time()
    for number in range(messages):
        produce(_KEYS[number % len(_KEYS)])
        if number % _POLL_EVERY == 0:
            poll()
    flush()
    return (time.thread_time() - began_s) / messages * 1e6
