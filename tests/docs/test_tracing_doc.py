"""docs/operations/tracing.md is true."""

import asyncio
import os
import signal
from collections.abc import Callable, Iterator
from typing import Any, get_args

import pytest
from confluent_kafka import Message, Producer
from opentelemetry import baggage, context
from opentelemetry.sdk.trace import ReadableSpan, TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

from linear_retry import Event, LinearConsumer, Strategy
from linear_retry.kafka.embedded.cluster import EmbeddedKafka
from linear_retry.monitoring.tracing import Tracing
from tests.docs.markdown import blocks, code, page, table
from tests.patience import PATIENCE_S

_PAGE = page("docs/operations/tracing.md")
_CODE = "\n".join(blocks(_PAGE, "python"))


@pytest.fixture
def names() -> dict[str, Any]:
    """What the page's code defines."""
    found: dict[str, Any] = {}
    exec(compile(_CODE, "tracing.md", "exec"), found)
    return found


@pytest.fixture
def exporter() -> InMemorySpanExporter:
    return InMemorySpanExporter()


@pytest.fixture
def provider(exporter: InMemorySpanExporter) -> TracerProvider:
    made = TracerProvider()
    made.add_span_processor(SimpleSpanProcessor(exporter))
    return made


@pytest.fixture
def kafka(names: dict[str, Any], provider: TracerProvider) -> Iterator[EmbeddedKafka]:
    """One order, sent in a span, as the page sends it, and a tombstone that nobody traced."""
    with EmbeddedKafka() as broker:
        broker.create_topic("orders")
        broker.create_topic("orders.dlq")
        producer = Producer({"bootstrap.servers": broker.bootstrap, "log_level": 0})
        token = context.attach(baggage.set_baggage("tenant", "acme"))
        with provider.get_tracer("shop").start_as_current_span("place order"):
            names["send"](producer, "orders", b"first")
        context.detach(token)
        producer.produce("orders", None, b"second")
        assert 0 == producer.flush(PATIENCE_S)
        yield broker


def _config(kafka: EmbeddedKafka) -> dict[str, Any]:
    return {"bootstrap.servers": kafka.bootstrap, "group.id": "billing", "log_level": 0}


class _Charge:
    """The first attempt fails; with the last message done, it asks for the end."""

    def __init__(self) -> None:
        self.tenants: list[object] = []
        self.stop: Callable[[], None] = lambda: os.kill(os.getpid(), signal.SIGTERM)

    def __call__(self, message: Message) -> None:
        self.tenants.append(baggage.get_baggage("tenant"))
        if len(self.tenants) == 1:
            raise ConnectionError("the bank is down")
        if message.offset() == 1:
            self.stop()


def _reported(exporter: InMemorySpanExporter) -> list[ReadableSpan]:
    """Those of attempts, once they are what the page says."""
    sent, failed, recovered, other = exporter.get_finished_spans()
    assert "place order" == sent.name
    assert ["process orders"] * 3 == [one.name for one in (failed, recovered, other)]
    linked = [[link.context.span_id for link in one.links] for one in (failed, recovered, other)]
    assert sent.context is not None
    assert failed.context is not None
    ids = sent.context.span_id, failed.context.span_id
    assert [[ids[0]], [*ids], []] == linked
    assert ["exception", "CircuitOpened"] == [event.name for event in failed.events]
    assert () == tuple(recovered.events) == tuple(other.events)
    return [failed, recovered, other]


def test_the_service(
    names: dict[str, Any],
    kafka: EmbeddedKafka,
    provider: TracerProvider,
    exporter: InMemorySpanExporter,
) -> None:
    """The page's program, with the page's sender; its attributes are the table's."""
    charge = _Charge()
    names["live"](_config(kafka), charge, provider)
    assert ["acme", "acme", None] == charge.tenants
    reported = {name for row in table(_PAGE, "attribute") for name in code(row[0])}
    assert reported == {name for span in _reported(exporter) for name in span.attributes or {}}


def _consumer(kafka: EmbeddedKafka, tracing: Tracing) -> LinearConsumer:
    return LinearConsumer(
        _config(kafka),
        ["orders"],
        strategy=Strategy([0]),
        transient=ConnectionError,
        dead_letters="orders.dlq",
        listeners=[tracing],
    )


def test_in_a_loop_of_ones_own(
    names: dict[str, Any],
    kafka: EmbeddedKafka,
    provider: TracerProvider,
    exporter: InMemorySpanExporter,
) -> None:
    """The same spans."""
    tracing, charge = Tracing(provider), _Charge()
    with _consumer(kafka, tracing) as consumer:
        charge.stop = consumer.stop
        names["live_in_a_loop"](consumer, tracing, charge)
    _reported(exporter)


def test_async(
    names: dict[str, Any],
    kafka: EmbeddedKafka,
    provider: TracerProvider,
    exporter: InMemorySpanExporter,
) -> None:
    """The same spans."""
    tracing, charge = Tracing(provider), _Charge()
    consumer = _consumer(kafka, tracing)
    charge.stop = consumer.stop

    async def awaited(message: Message) -> None:
        charge(message)

    asyncio.run(names["live_async"](consumer, tracing, awaited))
    _reported(exporter)


def test_the_events_are_the_librarys() -> None:
    """By their names, as docs/reference/events.md has them, and with the fields that they have."""
    rows = table(_PAGE, "event")
    events = {event.__name__: event for event in get_args(Event)}
    assert [] == [name for row in rows for name in code(row[0]) if name not in events]
    for row in rows:
        fields = {name.removeprefix("linear_retry.") for name in code(row[1]) if "retry." in name}
        for name in code(row[0]):
            assert fields <= set(events[name].__dataclass_fields__)
