"""Measures what an outbox costs over a producer, while Kafka takes everything."""

import gc
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import count
from pathlib import Path

from confluent_kafka import Producer

from benchmarks.figures import Figure, Result, Target
from benchmarks.scale import Scale
from benchmarks.topics import PARTITIONS, VALUE_BYTES
from linear_retry.outbox import Outbox
from tests.real_kafka import RealKafka

_COST = Target("at most", 2.0)
_FLUSH = Target("at most", 1.2)
_POLL_EVERY = 100
_FLUSHES = 100
_VALUE = b"x" * VALUE_BYTES
_KEYS = [b"k%d" % number for number in range(1_000)]
_numbers = count(1)


@dataclass(frozen=True, slots=True)
class _Contestant:
    produce: Callable[[bytes], object]
    poll: Callable[[], object]
    flush: Callable[[], object]

    def of_each_us(self, messages: int) -> float:
        """The CPU time of the thread that produces and polls."""
        gc.collect()  # what was made before is not the messages' cost
        began_s = time.thread_time()
        for number in range(messages):
            self.produce(_KEYS[number % len(_KEYS)])
            if number % _POLL_EVERY == 0:
                self.poll()
        self.flush()
        return (time.thread_time() - began_s) / messages * 1e6

    def flush_ms(self) -> float:
        """How long it takes to produce a message and to flush."""
        began_s = time.perf_counter()
        for key in _KEYS[:_FLUSHES]:
            self.produce(key)
            self.flush()
        return (time.perf_counter() - began_s) / _FLUSHES * 1e3


def run(kafka: RealKafka, scale: Scale) -> Result:
    """Both take turns."""
    topic = f"outbox-produce-{next(_numbers)}"
    kafka.create_topic(topic, PARTITIONS)
    bare, ours = list[tuple[float, float]](), list[tuple[float, float]]()
    for _ in range(scale.rounds):
        for contestant, measured in ((_bare, bare), (_outbox, ours)):
            with contestant(kafka, topic) as each:
                measured.append((each.of_each_us(scale.sent_messages), each.flush_ms()))
    pairs = list(zip(ours, bare, strict=True))
    return Result(
        (
            Figure("producer", "us/message", tuple(us for us, _ in bare)),
            Figure("outbox", "us/message", tuple(us for us, _ in ours)),
            Figure(
                "outbox over producer",
                "us/message",
                tuple(outbox[0] - producer[0] for outbox, producer in pairs),
                _COST,
            ),
            Figure(
                "a flush after each, outbox / producer",
                "x",
                tuple(outbox[1] / producer[1] for outbox, producer in pairs),
                _FLUSH,
            ),
        ),
        notes=(
            f"{scale.sent_messages:,} messages of {VALUE_BYTES} bytes, {len(_KEYS):,} keys; "
            f"{_FLUSHES} flushes",
        ),
    )


@contextmanager
def _bare(kafka: RealKafka, topic: str) -> Iterator[_Contestant]:
    producer = Producer(kafka.client_settings(**{"linger.ms": 5, "enable.idempotence": True}))
    producer.list_topics(topic, timeout=10.0)

    def produce(key: bytes) -> None:
        producer.produce(topic, _VALUE, key, on_delivery=_reported)

    yield _Contestant(produce, lambda: producer.poll(0), producer.flush)


def _reported(_: object, __: object) -> None:
    """A report costs a call, as any producer's that looks for failures."""


@contextmanager
def _outbox(kafka: RealKafka, topic: str) -> Iterator[_Contestant]:
    with tempfile.TemporaryDirectory() as directory:
        store = f"sqlite:///{Path(directory) / 'store.sqlite3'}"
        with Outbox(kafka.client_settings(), store=store, sender=False) as outbox:
            outbox.produce(topic, _VALUE)
            outbox.flush()

            def produce(key: bytes) -> None:
                outbox.produce(topic, _VALUE, key)

            yield _Contestant(produce, outbox.poll, outbox.flush)
