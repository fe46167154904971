"""A trace shows each attempt, whose message it was, and what came of a failure."""

import asyncio
import functools
import subprocess
import sys
import threading
from collections.abc import Callable
from typing import Any

import pytest
from opentelemetry import baggage, trace
from opentelemetry.sdk.trace import ReadableSpan, TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

from linear_retry import (
    ByKey,
    ConfigurationError,
    ExhaustedError,
    LinearConsumer,
    RetryTopics,
    Strategy,
    UsageError,
    events,
)
from linear_retry.consumer.operations.monitor import BoundListener
from linear_retry.kafka import Message
from linear_retry.kafka.embedded.cluster import EmbeddedKafka
from linear_retry.monitoring.tracing import Tracing
from tests.consumer.group import GROUP, LETTERS, TOPIC, OutageError, PoisonError, consumer_on
from tests.fake.cluster import FakeKafka
from tests.patience import PATIENCE_S

_TRACE, _SPAN = 0x0AF7651916CD43DD8448EB211C80319C, 0xB7AD6B7169203331
_PARENT = f"00-{_TRACE:032x}-{_SPAN:016x}-01".encode()
_SENT: list[tuple[str, bytes | None]] = [("traceparent", _PARENT), ("baggage", b"tenant=acme")]


class Traced:
    """One consumer with a Tracing, and the spans that were ended, in the order of their begin."""

    def __init__(self, fake: FakeKafka, **options: Any) -> None:
        self._exporter = InMemorySpanExporter()
        provider = TracerProvider()
        provider.add_span_processor(SimpleSpanProcessor(self._exporter))
        self.tracing = Tracing(provider)
        self.consumer: LinearConsumer = consumer_on(fake, listeners=[self.tracing], **options)
        self.tracer = provider.get_tracer("the service")

    def stopping_after(self, count: int, act: Callable[[Message], object]) -> Any:
        """`act`, and a stop in its attempt of this number."""
        attempts = iter(range(1, count + 1))

        def handle(message: Message) -> object:
            if next(attempts) == count:
                self.consumer.stop()
            return act(message)

        return handle

    def run(self, count: int, act: Callable[[Message], object]) -> None:
        """So many attempts."""
        with self.consumer:
            self.consumer.run(self.tracing.traced(self.stopping_after(count, act)))

    @property
    def spans(self) -> list[ReadableSpan]:
        return sorted(self._exporter.get_finished_spans(), key=lambda one: one.start_time or 0)


@pytest.fixture
def fake() -> FakeKafka:
    """Two messages in one partition, the first one sent in a span."""
    kafka = FakeKafka(balanced=True)
    kafka.create_topic(TOPIC, 1)
    kafka.create_topic(LETTERS, 1)
    kafka.append(TOPIC, 0, b"first", b"key", _SENT)
    kafka.append(TOPIC, 0, None)
    return kafka


def failing(*errors: BaseException) -> Callable[[Message], None]:
    """Raises these, one after another, and then nothing any more."""
    left = list(errors)

    def handle(_: Message) -> None:
        if left:
            raise left.pop(0)

    return handle


def _events(span: ReadableSpan) -> dict[str, dict[str, Any]]:
    return {event.name: dict(event.attributes or {}) for event in span.events}


def _attribute(spans: list[ReadableSpan], name: str) -> list[Any]:
    return [(span.attributes or {}).get(name) for span in spans]


def test_an_outage(fake: FakeKafka) -> None:
    """A span for each attempt; the failed one says why, and until when its message waits."""
    traced = Traced(fake)
    traced.run(3, failing(OutageError("down")))
    failed, recovered, other = traced.spans
    assert ["process orders"] * 3 == [span.name for span in traced.spans]
    assert {trace.SpanKind.CONSUMER} == {span.kind for span in traced.spans}
    assert {
        "messaging.system.name": "kafka",
        "messaging.operation.name": "process",
        "messaging.operation.type": "process",
        "messaging.destination.name": TOPIC,
        "messaging.destination.partition.id": "0",
        "messaging.consumer.group.name": GROUP,
        "messaging.message.retry.count": 0,
        "kafka.offset": 0,
        "error.type": "tests.consumer.group.OutageError",
    } == failed.attributes
    assert trace.StatusCode.ERROR == failed.status.status_code
    assert "OutageError('down')" == failed.status.description
    exception = _events(failed)["exception"]
    assert "down" == exception["exception.message"]
    assert "in handle" in exception["exception.stacktrace"]
    assert {
        "linear_retry.scope": "consumer",
        "linear_retry.error": "OutageError('down')",
        "linear_retry.failures": 1,
        "linear_retry.delay_s": 1.0,
        "linear_retry.retry_at": "2026-01-01T00:00:01+00:00",
    } == _events(failed)["CircuitOpened"]
    assert [0, 1, 0] == _attribute(traced.spans, "messaging.message.retry.count")
    assert [0, 0, 1] == _attribute(traced.spans, "kafka.offset")
    assert [None, None] == _attribute([recovered, other], "error.type")
    assert trace.StatusCode.UNSET == recovered.status.status_code
    assert [None, True] == _attribute([recovered, other], "kafka.message.tombstone")


def test_each_attempt_is_linked_to_the_span_that_sent_it(fake: FakeKafka) -> None:
    """As a link, each in a trace of its own: days of attempts would make one trace without end."""
    traced = Traced(fake)
    traced.run(3, failing(OutageError()))
    *first, other = traced.spans
    for span in first:
        link = span.links[0]
        assert (_TRACE, _SPAN) == (link.context.trace_id, link.context.span_id)
        assert link.context.is_remote
    assert () == tuple(other.links)
    assert {None} == {span.parent for span in traced.spans}
    assert 3 == len({span.context.trace_id for span in traced.spans if span.context})


def test_each_attempt_is_linked_to_the_one_before(fake: FakeKafka) -> None:
    """However long ago that was, in whichever trace."""
    traced = Traced(fake)
    traced.run(4, failing(OutageError(), OutageError()))
    first, second, third, other = traced.spans
    for before, after in ((first, second), (second, third)):
        assert before.context == after.links[-1].context
    assert (1, 2, 2, 0) == tuple(len(span.links) for span in (first, second, third, other))


@pytest.mark.parametrize("concurrency", [1, 2])
def test_side_by_side_each_attempt_has_its_own_outcome(concurrency: int) -> None:
    """The bug: a handler that began ended the span of another that had just failed, whose outcome
    it then lacked; and of two keys of a partition that waited, one was not counted."""
    exporter = InMemorySpanExporter()
    provider = TracerProvider()
    provider.add_span_processor(SimpleSpanProcessor(exporter))
    tracing, both = Tracing(provider), threading.Barrier(concurrency)
    failed, done = list[bytes | None](), set[bytes | None]()

    def fail_once(message: Message) -> None:
        if failed.count(message.value()) < 2:
            is_first = message.value() not in failed
            failed.append(message.value())
            if is_first:
                both.wait(PATIENCE_S)
            raise OutageError
        done.add(message.value())
        if len(done) == 2:
            consumer.stop()

    with EmbeddedKafka() as kafka:
        for topic in (TOPIC, LETTERS):
            kafka.create_topic(topic, 1)
        kafka.produce(TOPIC, ["a", "b"])
        with LinearConsumer(
            {"bootstrap.servers": kafka.bootstrap, "group.id": GROUP},
            [TOPIC],
            strategy=[0.1] * 9,
            transient=OutageError,
            dead_letters=LETTERS,
            scope=ByKey(key=lambda message: message.value(), key_id="value"),
            concurrency=concurrency,
            listeners=[tracing],
        ) as consumer:
            consumer.run(tracing.traced(fail_once))
    spans = sorted(exporter.get_finished_spans(), key=lambda one: one.start_time or 0)
    for offset in (0, 1):
        ours = [span for span in spans if (span.attributes or {})["kafka.offset"] == offset]
        first, second, third = ours
        assert [0, 1, 2] == _attribute(ours, "messaging.message.retry.count")
        assert [first.context] == [link.context for link in second.links]
        assert [second.context] == [link.context for link in third.links]
        assert ["exception", "CircuitOpened"] == [event.name for event in first.events]
        assert ["exception", "ProbeFailed"] == [event.name for event in second.events]


def test_inside_the_handler_the_span_is_the_current_one(fake: FakeKafka) -> None:
    """With the sender's baggage; and afterwards what was current before."""
    traced = Traced(fake)
    tenants: list[object] = []

    def handle(_: Message) -> None:
        tenants.append(baggage.get_baggage("tenant"))
        with traced.tracer.start_as_current_span("charge"):
            pass

    before = trace.get_current_span()
    traced.run(2, handle)
    assert before is trace.get_current_span()
    assert ["acme", None] == tenants
    outer = [span.context.span_id for span in traced.spans[::2] if span.context]
    assert outer == [span.parent.span_id for span in traced.spans[1::2] if span.parent]


def test_what_is_current_around_the_consumer_is_the_parent(fake: FakeKafka) -> None:
    """As everywhere with OpenTelemetry; the sender stays a link."""
    traced = Traced(fake)
    with traced.tracer.start_as_current_span("nightly") as nightly:
        traced.run(1, failing())
    _, span = traced.spans
    assert span.parent == nightly.get_span_context()
    assert [_TRACE] == [link.context.trace_id for link in span.links]


def test_waits_and_the_dead_letter_at_their_end(fake: FakeKafka) -> None:
    """Each failed attempt says what came of it: opened, failed again, dead-lettered."""
    traced = Traced(fake)
    traced.run(4, failing(*(OutageError(str(number)) for number in range(3))))
    assert ["CircuitOpened", "ProbeFailed", "DeadLettered"] == [
        list(_events(span))[-1] for span in traced.spans[:3]
    ]
    letter = _events(traced.spans[2])["DeadLettered"]
    assert LETTERS == letter["linear_retry.dead_letter_topic"]
    assert "exhausted" == letter["linear_retry.reason"]
    assert 3 == letter["linear_retry.failures"]
    assert [0, 1, 2, 0] == _attribute(traced.spans, "messaging.message.retry.count")


def test_a_message_that_leaves_for_a_retry_topic(fake: FakeKafka) -> None:
    """Its attempt ends with where it waits, and until when, under an id that each hop has."""
    retries = RetryTopics("orders.retry", strategy=["5m"])
    fake.create_topic("orders.retry.5m", 1, {"message.timestamp.type": "LogAppendTime"})
    traced = Traced(fake, strategy=[], on_exhausted=retries)
    traced.run(2, failing(OutageError("down")))
    left = _events(traced.spans[0])["SentToRetry"]
    assert {
        "linear_retry.retry_topic": "orders.retry.5m",
        "linear_retry.step": 1,
        "linear_retry.retry_at": "2026-01-01T00:05:00+00:00",
        "linear_retry.failures": 1,
    }.items() <= left.items()
    log = fake.log_of(("orders.retry.5m", 0))
    assert log is not None
    (record,) = log.records
    again = FakeKafka(balanced=True)
    for topic in (TOPIC, LETTERS):
        again.create_topic(topic, 1)
    again.append(TOPIC, 0, record.value, record.key, record.headers)
    retried = Traced(again)
    retried.run(1, failing())
    (span,) = retried.spans
    assert left["linear_retry.retry_id"] == (span.attributes or {})["linear_retry.retry_id"]
    assert "1" == (span.attributes or {})["linear_retry.step"]
    assert 1 == (span.attributes or {})["messaging.message.retry.count"]


def test_a_letter_that_is_not_taken(fake: FakeKafka) -> None:
    """Its message waits on for that; the handler is not called again, so there is no other span."""
    traced = Traced(fake, strategy=Strategy([1]))
    errors = [OutageError("once"), OutageError("twice")]

    def handle(_: Message) -> None:
        if len(errors) == 1:
            del fake.topics[LETTERS]
            fake.clock.at(60, traced.consumer.stop)
        raise errors.pop(0)

    traced.run(9, handle)
    assert ["CircuitOpened", "DeadLetterFailed"] == [list(_events(one))[-1] for one in traced.spans]
    assert 1.0 == _events(traced.spans[1])["DeadLetterFailed"]["linear_retry.delay_s"]


def test_a_message_that_is_skipped(fake: FakeKafka) -> None:
    """Loss by choice is seen in the trace too."""
    traced = Traced(fake, on_permanent="skip")
    traced.run(2, failing(PoisonError()))
    assert ["exception", "Skipped"] == list(_events(traced.spans[0]))


def test_the_time_of_a_failed_attempt_is_the_handlers(fake: FakeKafka) -> None:
    """Its span is ended later, when the wait is known; that is no time of the handler's."""
    traced = Traced(fake)
    traced.run(2, failing(OutageError()))
    failed = traced.spans[0]
    (opened,) = [one for one in failed.events if one.name == "CircuitOpened"]
    assert failed.end_time is not None
    assert failed.end_time <= opened.timestamp


def test_no_key_and_no_value_is_shown(fake: FakeKafka) -> None:
    """What traces keep is for many eyes."""
    traced = Traced(fake)
    traced.run(2, failing(OutageError()))
    assert [] == [
        word
        for word in ("first", "key")
        for one in traced.spans
        if word in one.to_json().split('"')
    ]


@pytest.mark.parametrize(
    "headers",
    [
        None,
        [],
        [("traceparent", b"garbled")],
        [("traceparent", b"\xff\xfe")],
        [("traceparent", None)],
        [("traceparent", b"00-" + b"0" * 32 + b"-" + b"0" * 16 + b"-01")],
        [("other", b"\xff"), ("tracestate", b"=,=")],
    ],
)
def test_without_a_sender_there_is_no_link(headers: Any) -> None:
    """Absent or garbled: the message is handled all the same, in a span all the same."""
    fake = FakeKafka(balanced=True)
    fake.create_topic(TOPIC, 1)
    fake.create_topic(LETTERS, 1)
    fake.append(TOPIC, 0, b"value", None, headers)
    traced = Traced(fake)
    traced.run(1, failing())
    (span,) = traced.spans
    assert () == tuple(span.links)
    assert trace.StatusCode.UNSET == span.status.status_code


def test_the_handlers_own_headers_do_no_harm(fake: FakeKafka) -> None:
    """Whatever it puts there, the attempt has its span; the consumer refuses the change."""
    traced = Traced(fake)
    errors = [OutageError()]

    def handle(message: Message) -> None:
        message.set_headers([("traceparent", 7), ("Traceparent", _PARENT), (b"\xff", None)])  # type: ignore[list-item]  # what no type checker lets through
        if errors:
            raise errors.pop()

    with pytest.raises(UsageError, match="has changed the message"):
        traced.run(2, handle)
    assert 1 == len(traced.spans)


def test_async_handlers(fake: FakeKafka) -> None:
    """The span lives as long as what is awaited, and is current in there."""
    traced = Traced(fake)
    errors = [OutageError("down")]

    async def charge(message: Message) -> None:
        await asyncio.sleep(0)
        with traced.tracer.start_as_current_span("charge"):
            await asyncio.sleep(0)
        if errors:
            raise errors.pop()
        if message.offset() == 1:
            traced.consumer.stop()

    asyncio.run(traced.consumer.run_async(traced.tracing.traced(charge)))
    outer = [span for span in traced.spans if span.name == "process orders"]
    inner = [span for span in traced.spans if span.name == "charge"]
    assert [0, 1, 0] == _attribute(outer, "messaging.message.retry.count")
    assert [span.context for span in outer] == [span.parent for span in inner]
    assert all((a.end_time or 0) >= (b.end_time or 0) for a, b in zip(outer, inner, strict=True))
    assert ["exception", "CircuitOpened"] == list(_events(outer[0]))


def test_what_would_never_be_awaited_is_refused(fake: FakeKafka) -> None:
    """`run` sees through to the `async def` function, also through a partial."""
    traced = Traced(fake)

    async def charge(_: Message) -> None:
        raise AssertionError("never awaited")

    for handler in (charge, functools.partial(charge)):
        with traced.consumer, pytest.raises(UsageError, match="use run_async"):
            traced.consumer.run(traced.tracing.traced(handler))  # type: ignore[unused-coroutine]


def test_a_task_that_is_cancelled(fake: FakeKafka) -> None:
    """The span ends with it, and says by what; nothing comes of its message."""
    traced = Traced(fake)

    async def main() -> None:
        begun = asyncio.Event()

        async def charge(_: Message) -> None:
            begun.set()
            await asyncio.get_running_loop().create_future()

        task = asyncio.ensure_future(traced.consumer.run_async(traced.tracing.traced(charge)))
        await begun.wait()
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task

    asyncio.run(main())
    assert ["asyncio.exceptions.CancelledError"] == _attribute(traced.spans, "error.type")


def test_a_loop_of_ones_own(fake: FakeKafka) -> None:
    """Raised, said with `fail`, or left by `break`: as with the attempt itself."""
    traced = Traced(fake)
    errors = [OutageError("raised"), OutageError("said")]
    with traced.consumer as consumer:
        for attempt in consumer:
            with traced.tracing.attempt(attempt) as message:
                assert trace.get_current_span().is_recording()
                if len(errors) == 2:
                    raise errors.pop(0)
                if errors:
                    attempt.fail(errors.pop())
                if message.offset() == 1:
                    break
    assert 2 == fake.group(GROUP)[TOPIC, 0]
    assert ["CircuitOpened", "ProbeFailed"] == [list(_events(one))[-1] for one in traced.spans[:2]]
    assert [0, 1, 2, 0] == _attribute(traced.spans, "messaging.message.retry.count")
    error = "tests.consumer.group.OutageError"
    assert [error, error, None, None] == _attribute(traced.spans, "error.type")


def test_it_ends_with_the_consumer(fake: FakeKafka) -> None:
    """Where nothing comes of a failure but the consumer's end."""
    traced = Traced(fake, strategy=Strategy([]), on_exhausted="stop")
    with pytest.raises(ExhaustedError):
        traced.run(9, failing(OutageError()))
    (span,) = traced.spans
    assert ["exception"] == list(_events(span))


def test_it_ends_with_an_interrupt(fake: FakeKafka) -> None:
    """Ctrl-C is no failure, and nothing comes of the message."""
    traced = Traced(fake)
    with pytest.raises(KeyboardInterrupt):
        traced.run(9, failing(KeyboardInterrupt()))
    assert ["KeyboardInterrupt"] == _attribute(traced.spans, "error.type")


@pytest.mark.parametrize(
    "gone",
    [events.Revoked(((TOPIC, 0),)), events.Lost(((TOPIC, 0),), "gone")],
    ids=["revoked", "lost"],
)
def test_it_ends_when_its_partition_goes(fake: FakeKafka, gone: events.Event) -> None:
    """And attempts are counted again by whoever has it next."""
    traced = Traced(fake)
    seen: list[Message] = []

    def handle(message: Message) -> None:
        seen.append(message)
        if len(seen) == 1:
            raise OutageError

    with traced.consumer as consumer:
        handler = traced.tracing.traced(traced.stopping_after(2, handle))
        consumer.run(handler)
        traced.tracing(gone)
        with pytest.raises(PoisonError):
            traced.tracing.traced(failing(PoisonError()))(seen[0])
        assert 2 == len(traced.spans)
        traced.tracing(gone)
        assert [0, 1, 0] == _attribute(traced.spans, "messaging.message.retry.count")


def test_an_exception_that_cannot_be_printed_is_a_failure_as_any(fake: FakeKafka) -> None:
    """Its `__str__` raises: the outcome is the handler's all the same, here a wait."""

    class HostileError(OutageError):
        def __str__(self) -> str:
            raise PoisonError

        __repr__ = __str__

    traced = Traced(fake)
    traced.run(3, failing(HostileError()))
    assert 0 == fake.topics[LETTERS].partitions[0].end
    assert ["exception", "CircuitOpened"] == list(_events(traced.spans[0]))


def test_it_belongs_to_one_consumer(fake: FakeKafka) -> None:
    """Else one would learn of the other's waits."""
    tracing = Traced(fake).tracing
    assert isinstance(tracing, BoundListener)
    with pytest.raises(
        ConfigurationError, match="belongs to another consumer; create one for each"
    ):
        consumer_on(fake, listeners=[tracing])


def test_without_a_consumer_it_is_refused_before_a_message_is_touched(fake: FakeKafka) -> None:
    """A handler that raised this would send every message to the dead letters."""
    with pytest.raises(UsageError, match="among a consumer's listeners"):
        Tracing().traced(failing())
    tracing = Tracing()
    with consumer_on(fake) as consumer:
        for attempt in consumer:
            with pytest.raises(UsageError, match="among a consumer's listeners"):
                tracing.attempt(attempt).__enter__()
            with attempt:
                break


def test_without_an_sdk_nothing_is_made_and_all_is_handled(fake: FakeKafka) -> None:
    """The API alone: what the handler returns and raises is what it would be without."""
    tracing, handled = Tracing(), []

    def handle(message: Message) -> None:
        handled.append(message.offset())
        if len(handled) == 1:
            raise OutageError
        if message.offset() == 1:
            consumer.stop()

    with consumer_on(fake, listeners=[tracing]) as consumer:
        consumer.run(tracing.traced(handle))
    assert [0, 0, 1] == handled


def test_the_sdk_is_not_needed() -> None:
    """A library depends on the API; what is done with the spans is the service's choice."""
    code = """
import sys
sys.modules["opentelemetry.sdk"] = None
from linear_retry import LinearConsumer, Strategy
from linear_retry.monitoring.tracing import Tracing
tracing = Tracing()
keys = {"bootstrap.servers": "127.0.0.1:9", "group.id": "billing"}
LinearConsumer(
    keys, ["orders"], strategy=Strategy([1]), transient=OSError, dead_letters="dlq",
    listeners=[tracing],
)
tracing.traced(print)
"""
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True, timeout=PATIENCE_S
    )
    assert "" == done.stderr
