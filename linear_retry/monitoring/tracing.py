"""Spans of attempts for OpenTelemetry, with the outcome of each failure. Needs the extra `otel`."""

import dataclasses
import functools
import inspect
import time
from collections.abc import Awaitable, Callable, Collection, Iterator
from contextlib import contextmanager
from datetime import datetime
from typing import Any, NamedTuple, TypeVar, cast

from opentelemetry import context, propagate, trace

from linear_retry import events
from linear_retry.consumer.operations.monitor import BoundListener
from linear_retry.consumer.runners.own_loop import Attempt
from linear_retry.errors import ConfigurationError, UsageError
from linear_retry.kafka import Message
from linear_retry.kafka.consumer.messages import make_safe, place_of
from linear_retry.records.retry_headers import FAILURES, ID, RETRY, SEND_TO, STEP
from linear_retry.records.text import brief, describe
from linear_retry.retry.callables import is_coroutine_function
from linear_retry.scope import Partition, Place

__all__ = ["Tracing"]

_Returned = TypeVar("_Returned")
_COORDINATES = ("topic", "partition", "offset")
CONVENTIONS = "https://opentelemetry.io/schemas/1.45.0"
_WAITS = events.CircuitOpened | events.ProbeFailed | events.LimitReached | events.KeyBlocked
_LEFT = (
    events.DeadLettered
    | events.SentToRetry
    | events.ReturnedToSource
    | events.HandedOver
    | events.Skipped
)


class _Begun(NamedTuple):
    """An attempt's span, which lasts until it is ended, and the context in which it is current."""

    place: Place
    span: trace.Span
    inside: context.Context


class _Failed(NamedTuple):
    """The span of an attempt that failed `at_ns`, and whose outcome is not known yet."""

    span: trace.Span
    at_ns: int


class _Before(NamedTuple):
    """How often a message that waits has failed, and the span of its last attempt."""

    failures: int
    span: trace.SpanContext | None


_FIRST = _Before(0, None)


class Tracing(BoundListener):
    """A listener for one consumer, and the source of its attempts' spans.

    `listeners=[tracing]`, and then `consumer.run(tracing.traced(handler))`, the same with
    `run_async`, or `with tracing.attempt(attempt) as message` in a loop of your own.

    There is a span for each attempt, of kind CONSUMER; it is the current span in the handler. It
    links to the span that sent the message, which the global propagator finds in the headers, and
    to that of the attempt before; baggage of the sender is current too. A failure is recorded with
    its outcome: the span of a failed attempt ends with the first event about its message (the
    opened circuit, the dead letter), but its duration is the handler's own. Names are those of
    OpenTelemetry's semantic conventions for messaging, version 1.45; a message's key and value are
    never in a span.

    https://opentelemetry.io/docs/specs/semconv/messaging/kafka/
    """

    def __init__(self, tracer_provider: trace.TracerProvider | None = None) -> None:
        """`tracer_provider`: by default the global one."""
        self._tracer = trace.get_tracer(
            "linear_retry", tracer_provider=tracer_provider, schema_url=CONVENTIONS
        )
        self._group_id: str | None = None
        # By place, as several handlers may run at once; each entry by one thread at a time.
        self._failed: dict[Place, _Failed] = {}
        self._waiting: dict[Place, _Before] = {}

    def bind(self, group_id: str) -> None:
        """Called by the consumer that has it among its listeners, when that is created.

        Raises `ConfigurationError` if it belongs to another consumer.
        """
        if self._group_id is not None:
            raise ConfigurationError(
                "listeners: this Tracing belongs to another consumer; create one for each"
            )
        self._group_id = group_id

    def __call__(self, event: events.Event) -> None:
        """Ends the span of a failed attempt with the outcome for its message."""
        if isinstance(event, events.Revoked | events.Lost | events.Stopped):
            gone = None if isinstance(event, events.Stopped) else event.partitions
            self._forget(gone)
        place: Place | None = getattr(event, "place", None)
        if place is None:
            return
        failed, span = self._failed.get(place), self._waiting.get(place, _FIRST).span
        if failed is not None:
            span = failed.span.get_span_context()
            failed.span.add_event(type(event).__name__, _event_attributes(event))
            self._end_failed(place)
        if isinstance(event, _WAITS):
            self._waiting[place] = _Before(event.failures, span)
        elif isinstance(event, _LEFT):
            self._waiting.pop(place, None)

    def traced(self, handler: Callable[[Message], _Returned]) -> Callable[[Message], _Returned]:
        """Wraps `handler`, a plain or an `async def` function, so that each call has a span.

        Raises `UsageError` unless a consumer has this Tracing among its listeners.
        """
        self._check_bound()

        @functools.wraps(handler)
        def call(message: Message) -> _Returned:
            begun = self._begin(message)
            with self._inside(begun):
                returned = handler(message)
            if inspect.isawaitable(returned):
                return cast(_Returned, self._awaited(begun, returned))
            begun.span.end()
            return returned

        @functools.wraps(handler)
        async def awaited(message: Message) -> Any:
            return await cast(Awaitable[Any], call(message))

        # A plain function around an `async def` would be taken for a handler of `run`.
        is_async = is_coroutine_function(handler)
        return cast(Callable[[Message], _Returned], awaited) if is_async else call

    @contextmanager
    def attempt(self, attempt: Attempt) -> Iterator[Message]:
        """Enters `attempt`, of a loop of your own, with a span around it.

        Otherwise as `with attempt`. Raises `UsageError` as `traced` does.
        """
        self._check_bound()
        with attempt as message:
            begun = self._begin(message)
            with self._inside(begun):
                yield message
            if attempt.error is None:
                begun.span.end()
            else:
                self._fail(begun, attempt.error)

    def _check_bound(self) -> None:
        if self._group_id is None:
            raise UsageError(
                "this Tracing has no consumer, so it would miss every wait: put it among "
                "a consumer's listeners before it is used"
            )

    def _begin(self, message: Message) -> _Begun:
        place = place_of(message)
        self._end_failed(place)  # no event has reported its outcome
        before = self._waiting.pop(place, _FIRST)
        carrier = _carrier(message)
        found = propagate.extract(carrier) if carrier else context.get_current()
        sent = trace.get_current_span(found).get_span_context()
        around = trace.get_current_span()
        found = trace.set_span_in_context(around, found)
        linked = [sent] if sent.is_valid and sent != around.get_span_context() else []
        linked += [] if before.span is None else [before.span]
        span = self._tracer.start_span(
            f"process {message.topic()}",
            found,
            trace.SpanKind.CONSUMER,
            self._attributes(message, place, before.failures),
            [trace.Link(each) for each in linked],
        )
        return _Begun(place, span, trace.set_span_in_context(span, found))

    @contextmanager
    def _inside(self, begun: _Begun) -> Iterator[None]:
        """Makes the span current in the body, and records an exception from there."""
        token = context.attach(begun.inside)
        try:
            yield
        except BaseException as error:
            self._fail(begun, error)
            raise
        finally:
            context.detach(token)

    async def _awaited(self, begun: _Begun, returned: Awaitable[object]) -> object:
        with self._inside(begun):
            result = await returned
        begun.span.end()
        return result

    def _fail(self, begun: _Begun, error: BaseException) -> None:
        """Ends the span once the outcome is known; at once if no event will follow."""
        # Not the SDK's own `record_exception`: that calls __str__, which may raise, and an
        # exception in here would look like the handler's.
        text, span = describe(error), begun.span
        error_type = text.type.removeprefix("builtins.")
        attributes = {
            "exception.type": error_type,
            "exception.message": text.message or "",
            "exception.stacktrace": text.stack or "",
        }
        span.set_attribute("error.type", error_type)
        span.set_status(trace.StatusCode.ERROR, brief(error))
        span.add_event("exception", attributes)
        if isinstance(error, Exception):
            self._failed[begun.place] = _Failed(span, time.time_ns())
        else:
            span.end()

    def _attributes(self, message: Message, place: Place, failures: int) -> dict[str, Any]:
        attributes = {
            "messaging.system.name": "kafka",
            "messaging.operation.name": "process",
            "messaging.operation.type": "process",
            "messaging.destination.name": place.topic,
            "messaging.destination.partition.id": str(place.partition),
            "messaging.consumer.group.name": self._group_id,
            "messaging.message.retry.count": failures,
            "kafka.offset": place.offset,
        }
        if message.value() is None:
            attributes["kafka.message.tombstone"] = True
        return attributes | _retried(message, failures)

    def _end_failed(self, place: Place) -> None:
        failed = self._failed.pop(place, None)
        if failed is not None:
            failed.span.end(failed.at_ns)

    def _forget(self, partitions: Collection[Partition] | None) -> None:
        """Ends what waits for an outcome in these partitions, or in all."""
        for place in (*self._failed, *self._waiting):
            if partitions is None or (place.topic, place.partition) in partitions:
                self._end_failed(place)
                self._waiting.pop(place, None)


def _retried(message: Message, failures: int) -> dict[str, Any]:
    """Which message it is, where it comes from a retry topic: its spans of all hops have one id.

    `failures` are those since it was read there.
    """
    contents = dict(make_safe(message))
    if contents.get(SEND_TO) != RETRY.encode():
        return {}
    named = {"linear_retry.retry_id": contents.get(ID), "linear_retry.step": contents.get(STEP)}
    found: dict[str, Any] = {
        name: value.decode(errors="replace") for name, value in named.items() if value is not None
    }
    before = contents.get(FAILURES) or b""
    if before.isdigit():
        found["messaging.message.retry.count"] = int(before) + failures
    return found


def _carrier(message: Message) -> dict[str, str]:
    """Returns the headers as text, for a propagator, whatever they contain."""
    return {
        name.lower(): value.decode(errors="replace")
        for name, value in make_safe(message)
        if value is not None
    }


def _event_attributes(event: events.Event) -> dict[str, Any]:
    """Returns all fields except those that the span already has."""
    names = [one.name for one in dataclasses.fields(event) if one.name not in _COORDINATES]
    return {f"linear_retry.{name}": _value(getattr(event, name)) for name in names}


def _value(value: object) -> Any:
    match value:
        case str() | int() | float() | tuple():
            return value
        case datetime():
            return value.isoformat()
        case _:
            return str(value)
