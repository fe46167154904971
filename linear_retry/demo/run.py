"""The whole demo: 400 orders, a service that goes down twice, one consumer, and the proof."""

from __future__ import annotations

import signal
import socket
import uuid
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from threading import Timer

from linear_retry.consumer.linear_consumer import LinearConsumer
from linear_retry.demo.display.watching import Display, watching, without_log_lines
from linear_retry.demo.evidence import Evidence, Letter, Produced, Verdict
from linear_retry.demo.orders import PARTITIONS, REJECTED, order_id_of, orders
from linear_retry.demo.payments import TRANSIENT, Payments
from linear_retry.demo.proof import prove
from linear_retry.demo.record import Record
from linear_retry.demo.service import Outage, PaymentService
from linear_retry.kafka.embedded.cluster import EmbeddedKafka
from linear_retry.kafka.producers.acknowledged import write_all
from linear_retry.kafka.quiet import QUIET
from linear_retry.kafka.topics.reader import TopicReader
from linear_retry.kafka.topics.temporary import temporary_topics
from linear_retry.records.record import OutgoingRecord
from linear_retry.records.record import Record as KafkaRecord
from linear_retry.retry.circuits import CircuitView
from linear_retry.scope import Scope
from linear_retry.strategy.strategy import Strategy

STRATEGY = Strategy([0.5, 1, {"every": 2, "times": 30}], name="demo")
OUTAGES = (Outage(110, "refused", 2.5), Outage(260, "unavailable", 2.5))
LATENCY_S = 0.006
MAX_RUN_S = 120.0
_FETCHED_AT_ONCE = 5

MakeDisplay = Callable[[Record, Callable[[], Mapping[Scope, CircuitView]]], Display]
"""Makes the display of a run, given its record and the circuits."""


class Interrupted(Exception):  # noqa: N818  (what the person wanted, not what went wrong)
    """A signal stopped the demo before all was done."""

    def __init__(self, text: str, number: int = signal.SIGINT) -> None:
        super().__init__(text)
        self.number = number


@dataclass(frozen=True, slots=True)
class DemoTopics:
    """The cluster, topics and group of the demo."""

    bootstrap: str
    topic: str
    dead_letters: str
    group_id: str


@contextmanager
def embedded_topics() -> Iterator[DemoTopics]:
    """Topics on a broker in this process."""
    with EmbeddedKafka() as broker:
        topics = DemoTopics(broker.bootstrap, "orders", "orders.dlq", "linear-retry-demo")
        broker.create_topic(topics.topic, PARTITIONS)
        broker.create_topic(topics.dead_letters, PARTITIONS)
        yield topics


@contextmanager
def cluster_topics(bootstrap: str, complain: Callable[[str], object]) -> Iterator[DemoTopics]:
    """Topics and a group of unique names on a real cluster, removed at the end."""
    name = f"linear-retry-demo-{uuid.uuid4().hex[:12]}"
    topics = DemoTopics(bootstrap, f"{name}.orders", f"{name}.orders.dlq", name)
    partitions = {topics.topic: PARTITIONS, topics.dead_letters: PARTITIONS}
    with temporary_topics(bootstrap, partitions, groups=[name], complain=complain):
        yield topics


def run(topics: DemoTopics, make_display: MakeDisplay) -> tuple[Verdict, ...]:
    """Produces, consumes until all is paid or dead-lettered, and proves the promises.

    For the main thread: Ctrl-C and SIGTERM end it cleanly, with `Interrupted`. After two minutes
    it ends by itself, and the proof says what is missing.
    """
    produced = _produce(topics)
    record = Record(produced)
    with (
        PaymentService(OUTAGES, REJECTED, latency_s=LATENCY_S) as service,
        Payments(service.url, record.on_attempt) as payments,
        without_log_lines(),
    ):
        _consume(topics, payments, record, make_display)
        receipts = service.receipts
    return prove(
        Evidence(
            topic=topics.topic,
            produced=produced,
            attempts=record.attempts(),
            receipts=receipts,
            events=record.events(),
            letters=tuple(
                _letter(message)
                for message in TopicReader({"bootstrap.servers": topics.bootstrap}).read_all(
                    topics.dead_letters
                )
            ),
            delays_s=tuple(STRATEGY),
            rejected=REJECTED,
        )
    )


def _produce(topics: DemoTopics) -> tuple[Produced, ...]:
    all_orders = orders()
    # A consumer is given whole batches: with small ones the partitions come in turn.
    batches = {"enable.idempotence": True, "batch.num.messages": _FETCHED_AT_ONCE}
    offsets = write_all(
        QUIET | {"bootstrap.servers": topics.bootstrap} | batches,
        (
            OutgoingRecord(topics.topic, each.order_id.encode(), each.encode(), (), each.partition)
            for each in all_orders
        ),
    )
    return tuple(
        Produced(order.order_id, order.partition, offset)
        for order, offset in zip(all_orders, offsets, strict=True)
    )


def _consume(
    topics: DemoTopics, payments: Payments, record: Record, make_display: MakeDisplay
) -> None:
    with LinearConsumer(
        {
            "bootstrap.servers": topics.bootstrap,
            "group.id": topics.group_id,
            "auto.offset.reset": "earliest",
            # One batch of each partition at a time: all four are seen to move.
            "max.partition.fetch.bytes": 1,
            # librdkafka's own lines on stderr would stand in the picture.
            "log_level": 0,
        },
        [topics.topic],
        strategy=STRATEGY,
        transient=TRANSIENT,
        dead_letters=topics.dead_letters,
        listeners=(record.on_event,),
    ) as consumer:
        record.when_settled = consumer.stop
        out_of_time = Timer(MAX_RUN_S, consumer.stop)
        out_of_time.daemon = True
        out_of_time.start()
        with (
            watching(make_display(record, lambda: consumer.circuits), consumer.stop),
            _received_signals() as signals,
        ):
            consumer.run(payments.pay)
    if not record.is_settled and out_of_time.is_alive():
        progress = record.progress()
        done = progress.paid + progress.dead_lettered
        raise Interrupted(f"interrupted: {done} of {progress.total} orders were done", *signals)
    out_of_time.cancel()


@contextmanager
def _received_signals() -> Iterator[list[int]]:
    """Gives a list that has the signal's number at the end, which `run` does not report."""
    signals: list[int] = []
    reading, writing = socket.socketpair()
    with reading, writing:
        reading.setblocking(False)
        writing.setblocking(False)
        before = signal.set_wakeup_fd(writing.fileno(), warn_on_full_buffer=False)
        try:
            yield signals
        finally:
            signal.set_wakeup_fd(before)
            signals.extend(_received(reading))


def _received(reading: socket.socket) -> bytes:
    try:
        return reading.recv(1)
    except BlockingIOError:
        return b""


def _letter(message: KafkaRecord) -> Letter:
    headers = dict(message.headers)
    return Letter(
        order_id_of(message.value),
        int(headers["retry-original-partition"] or -1),
        int(headers["retry-original-offset"] or -1),
        (headers["retry-reason"] or b"").decode(),
    )
