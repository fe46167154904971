"""The whole demo: 400 orders, a service that goes down twice, one consumer, and the proof."""

import uuid
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass, field
from typing import Any

from linear_retry.consumer.linear_consumer import LinearConsumer
from linear_retry.demo.display.watching import MakeDisplay, watching, without_log_lines
from linear_retry.demo.evidence import Evidence, Letter, Verdict, offsets_of
from linear_retry.demo.payments import ORDERS, PARTITIONS, REJECTED, TRANSIENT, Payments
from linear_retry.demo.proof import prove
from linear_retry.demo.record import Record
from linear_retry.demo.service import Outage, PaymentService
from linear_retry.events import Listener
from linear_retry.kafka.embedded.cluster import EmbeddedKafka
from linear_retry.kafka.producers.acknowledged import write_all
from linear_retry.kafka.quiet import QUIET
from linear_retry.kafka.topics.reader import TopicReader
from linear_retry.kafka.topics.temporary import temporary_topics
from linear_retry.records.record import OutgoingRecord
from linear_retry.records.record import Record as KafkaRecord
from linear_retry.scope import Place
from linear_retry.strategy.strategy import Strategy
from linear_retry.testing.guarantees.done import when_done

STRATEGY = Strategy([0.5, 1, {"every": 2, "times": 30}], name="demo")
OUTAGES = (Outage(110, "refused", 2.5), Outage(260, "unavailable", 2.5))
LATENCY_S = 0.006
_FETCHED_AT_ONCE = 5


@dataclass(frozen=True, slots=True)
class DemoTopics:
    """The cluster, topics and group of the demo."""

    bootstrap: str
    topic: str
    dead_letters: str
    group_id: str


@dataclass(frozen=True, slots=True)
class Extra:
    """What a demo needs beside its topic, its dead letters and its group."""

    topics: Sequence[str] = ()
    groups: Sequence[str] = ()
    config: Mapping[str, str] = field(default_factory=dict)
    """The settings of all topics."""


@contextmanager
def embedded_topics(more: Sequence[str] = ()) -> Iterator[DemoTopics]:
    """Topics on a broker in this process, and `more` of them."""
    with EmbeddedKafka() as broker:
        topics = DemoTopics(broker.bootstrap, "orders", "orders.dlq", "linear-retry-demo")
        for topic in (topics.topic, topics.dead_letters, *more):
            broker.create_topic(topic, PARTITIONS)
        yield topics


@contextmanager
def cluster_topics(
    bootstrap: str,
    complain: Callable[[str], object],
    extra_of: Callable[[DemoTopics], Extra] | None = None,
) -> Iterator[DemoTopics]:
    """Topics and a group of unique names on a real cluster, removed at the end.

    `extra_of` returns what else is needed beside them.
    """
    name = f"linear-retry-demo-{uuid.uuid4().hex[:12]}"
    topics = DemoTopics(bootstrap, f"{name}.orders", f"{name}.orders.dlq", name)
    extra = Extra() if extra_of is None else extra_of(topics)
    with temporary_topics(
        bootstrap,
        dict.fromkeys((topics.topic, topics.dead_letters, *extra.topics), PARTITIONS),
        groups=(name, *extra.groups),
        complain=complain,
        config=extra.config,
    ):
        yield topics


def topics_on(
    bootstrap: str | None, complain: Callable[[str], object]
) -> AbstractContextManager[DemoTopics]:
    """The topics, on an embedded broker or a cluster."""
    return embedded_topics() if bootstrap is None else cluster_topics(bootstrap, complain)


def run(
    topics: DemoTopics,
    make_display: MakeDisplay,
    outages: tuple[Outage, ...] = OUTAGES,
    listeners: Sequence[Listener] = (),
) -> tuple[Verdict, ...]:
    """Produces, consumes until all is paid or dead-lettered, and proves the promises.

    Ctrl-C closes the consumer; the `KeyboardInterrupt` then has a note that says how many orders
    were done.
    """
    record = Record(produce(topics))
    with (
        PaymentService(outages, REJECTED, latency_s=LATENCY_S) as service,
        Payments(service.url, record.requests.append) as payments,
        without_log_lines(),
    ):
        _consume(topics, payments, record, make_display, listeners)
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


def produce(topics: DemoTopics) -> dict[Place, str]:
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


def consumer_config(topics: DemoTopics) -> dict[str, Any]:
    """The consumer's configuration, with what keeps the view readable."""
    return {
        "bootstrap.servers": topics.bootstrap,
        "group.id": topics.group_id,
        "auto.offset.reset": "earliest",
        # One batch per partition at a time, so that all four visibly progress.
        "max.partition.fetch.bytes": 1,
        # librdkafka's own lines on stderr would spoil the view.
        "log_level": 0,
    }


@contextmanager
def noting_progress(record: Record) -> Iterator[None]:
    """Adds to a `KeyboardInterrupt` how many orders were done."""
    try:
        yield
    except KeyboardInterrupt as interrupt:
        progress = record.progress()
        done = progress.paid + progress.dead_lettered
        interrupt.add_note(f"{done} of {progress.total} orders were done")
        raise


def _consume(
    topics: DemoTopics,
    payments: Payments,
    record: Record,
    make_display: MakeDisplay,
    listeners: Sequence[Listener],
) -> None:
    with LinearConsumer(
        consumer_config(topics),
        [topics.topic],
        strategy=STRATEGY,
        transient=TRANSIENT,
        dead_letters=topics.dead_letters,
        listeners=(record.log.listener(""), *listeners),
    ) as consumer:
        when_done(record.log, offsets_of(record.orders), consumer.stop)
        with (
            noting_progress(record),
            watching(make_display(record, lambda: consumer.circuits), consumer.stop),
        ):
            for attempt in consumer:
                with attempt as message, record.log.attempting("", message):
                    payments.pay(message)


def _letter(message: KafkaRecord) -> Letter:
    headers = dict(message.headers)
    return Letter(
        (message.value or b"").decode(),
        int(headers["retry-original-partition"] or -1),
        int(headers["retry-original-offset"] or -1),
        (headers["retry-reason"] or b"").decode(),
    )
