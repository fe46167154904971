"""The whole demo: 400 orders, a service that goes down twice, one consumer, and the proof."""

import uuid
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass

from linear_retry import Journal, LinearConsumer, Strategy
from linear_retry.demo.display import MakeDisplay, watching, without_log_lines
from linear_retry.demo.evidence import Evidence, Letter, Record, Verdict, offsets_of
from linear_retry.demo.proof import prove
from linear_retry.demo.service import (
    ORDERS,
    PARTITIONS,
    REJECTED,
    TRANSIENT,
    Outage,
    Payments,
    PaymentService,
)
from linear_retry.kafka.embedded.cluster import EmbeddedKafka
from linear_retry.kafka.producers.acknowledged import write_all
from linear_retry.kafka.quiet import QUIET
from linear_retry.kafka.topics.reader import TopicReader
from linear_retry.kafka.topics.temporary import temporary_topics
from linear_retry.records.dead_letter import parse
from linear_retry.records.record import OutgoingRecord
from linear_retry.records.record import Record as KafkaRecord
from linear_retry.scope import Place
from linear_retry.testing.guarantees.done import when_done

STRATEGY = Strategy([0.5, 1, {"every": 2, "times": 30}], name="demo")
OUTAGES = (Outage(110, "refused", 2.5), Outage(260, "unavailable", 2.5))
LONG_OUTAGES = (Outage(110, "refused", 12.0), Outage(260, "unavailable", 12.0))
"""Long enough to look at a page meanwhile."""
LATENCY_S = 0.006
_FETCHED_AT_ONCE = 5


@dataclass(frozen=True, slots=True)
class DemoTopics:
    """The cluster, topics and group of the demo; the journal is for a console beside it."""

    bootstrap: str
    topic: str
    dead_letters: str
    journal: str
    group_id: str

    @property
    def partitions(self) -> dict[str, int]:
        """The number of partitions of each topic."""
        return dict.fromkeys((self.topic, self.dead_letters, self.journal), PARTITIONS)


@contextmanager
def embedded_topics() -> Iterator[DemoTopics]:
    """Topics on a broker in this process."""
    with EmbeddedKafka() as broker:
        names = ("orders", "orders.dlq", "linear-retry.journal")
        topics = DemoTopics(broker.bootstrap, *names, "linear-retry-demo")
        for topic, partitions in topics.partitions.items():
            broker.create_topic(topic, partitions)
        yield topics


@contextmanager
def cluster_topics(bootstrap: str, complain: Callable[[str], object]) -> Iterator[DemoTopics]:
    """Topics and a group of unique names on a real cluster, removed at the end."""
    name = f"linear-retry-demo-{uuid.uuid4().hex[:12]}"
    names = f"{name}.orders", f"{name}.orders.dlq", f"{name}.journal"
    topics = DemoTopics(bootstrap, *names, name)
    with temporary_topics(bootstrap, topics.partitions, groups=(name,), complain=complain):
        yield topics


def topics_on(
    bootstrap: str | None, complain: Callable[[str], object]
) -> AbstractContextManager[DemoTopics]:
    """The topics, on an embedded broker or a cluster."""
    return embedded_topics() if bootstrap is None else cluster_topics(bootstrap, complain)


def run(
    topics: DemoTopics, make_display: MakeDisplay, outages: tuple[Outage, ...] = OUTAGES
) -> tuple[Verdict, ...]:
    """Produces, consumes until all is paid or dead-lettered, and proves the promises.

    Ctrl-C closes the consumer; the `KeyboardInterrupt` then has a note that says how many orders
    were done.
    """
    record = Record(_produce(topics))
    with (
        PaymentService(outages, REJECTED, latency_s=LATENCY_S) as service,
        Payments(service.url, record.requests.append) as payments,
        without_log_lines(),
    ):
        _consume(topics, payments, record, make_display)
        receipts = service.receipts
    return prove(
        Evidence(
            orders=record.orders,
            log=record.log.entries,
            requests=record.requests,
            receipts=receipts,
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


def _produce(topics: DemoTopics) -> dict[Place, str]:
    """Produces the orders; returns where the broker has them."""
    numbered = [(order, number % PARTITIONS) for number, order in enumerate(ORDERS)]
    # A consumer receives whole batches: with small ones the partitions take turns.
    batches = {"enable.idempotence": True, "batch.num.messages": _FETCHED_AT_ONCE}
    offsets = write_all(
        QUIET | {"bootstrap.servers": topics.bootstrap} | batches,
        (
            OutgoingRecord(topics.topic, None, order.encode(), (), partition)
            for order, partition in numbered
        ),
    )
    return {
        Place(topics.topic, partition, offset): order
        for (order, partition), offset in zip(numbered, offsets, strict=True)
    }


def _consume(
    topics: DemoTopics, payments: Payments, record: Record, make_display: MakeDisplay
) -> None:
    config = {
        "bootstrap.servers": topics.bootstrap,
        "group.id": topics.group_id,
        "auto.offset.reset": "earliest",
        # One batch per partition at a time, so that all four visibly progress.
        "max.partition.fetch.bytes": 1,
        # librdkafka's own lines on stderr would spoil the view.
        "log_level": 0,
    }
    with LinearConsumer(
        config,
        [topics.topic],
        strategy=STRATEGY,
        transient=TRANSIENT,
        dead_letters=topics.dead_letters,
        listeners=(record.log.listener(""), Journal(topics.journal)),
    ) as consumer:
        when_done(record.log, offsets_of(record.orders), consumer.stop)
        try:
            with watching(make_display(record, lambda: consumer.circuits), consumer.stop):
                for attempt in consumer:
                    with attempt as message, record.log.attempting("", message):
                        payments.pay(message)
        except KeyboardInterrupt as interrupt:
            progress = record.progress()
            done = progress.paid + progress.dead_lettered
            interrupt.add_note(f"{done} of {progress.total} orders were done")
            raise


def _letter(message: KafkaRecord) -> Letter:
    letter = parse(message.headers, message.key, message.value)
    place = letter.original_partition, letter.original_offset
    return Letter((letter.value or b"").decode(), *place, letter.reason)
