"""Spans of attempts for OpenTelemetry, with the outcome of each failure. Needs the extra `otel`."""

import dataclasses
import functools
import inspect
import time
from collections.abc import Awaitable, Callable, Iterator
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
from linear_retry.records.retry_headers import ID, RETRY, SEND_TO, STEP
from linear_retry.records.text import brief, describe
from linear_retry.retry.callables import is_coroutine_function
from linear_retry.scope import Partition, Place

__all__ = ["Tracing"]

_Returned = TypeVar("_Returned")
_COORDINATES = ("topic", "partition", "offset")


class _Begun(NamedTuple):
    """An attempt's span, which lasts until it is ended, and the context in which it is current."""

    place: Place
    span: trace.Span
    inside: context.Context


class Tracing(BoundListener):
    """A listener for one consumer, and the source of its attempts' spans.

    `listeners=[tracing]`, and then `consumer.run(tracing.traced(handler))`, the same with
    `run_async`, or `with tracing.attempt(attempt) as message` in a loop of your own.

    There is a span for each attempt, of kind CONSUMER; it is the current span in the handler. It
    links to the span that sent the message, which the global propagator finds in the headers;
    baggage from there is current too. A failure is recorded with its outcome: the span of a failed
    attempt ends with the first event about its message (the opened circuit, the dead letter), but
    its duration is the handler's own. Names are those of OpenTelemetry's semantic conventions for
    messaging; a message's key and value are never in a span.

    https://opentelemetry.io/docs/specs/semconv/messaging/kafka/
    """

    def __init__(self, tracer_provider: trace.TracerProvider | None = None) -> None:
        """`tracer_provider`: by default the global one."""
        self._tracer = trace.get_tracer("linear_retry", tracer_provider=tracer_provider)
        self._group_id: str | None = None
        self._failed: _Begun | None = None
        self._failed_ns = 0
        self._failures: dict[Partition, tuple[int, int]] = {}

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
        match event:
            case events.Revoked() | events.Lost():
                self._end_failed()
                for partition in event.partitions:
                    self._failures.pop(partition, None)
            case events.Stopped():
                self._end_failed()
            case events.CircuitOpened() | events.ProbeFailed() | events.KeyBlocked():
                self._failures[event.topic, event.partition] = event.offset, event.failures
        if self._failed is not None and self._failed.place == getattr(event, "place", None):
            self._failed.span.add_event(type(event).__name__, _event_attributes(event))
            self._end_failed()

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
        self._end_failed()  # no event has reported its outcome
        carrier = _carrier(message)
        found = propagate.extract(carrier) if carrier else context.get_current()
        sent = trace.get_current_span(found).get_span_context()
        around = trace.get_current_span()
        found = trace.set_span_in_context(around, found)
        is_sent = sent.is_valid and sent != around.get_span_context()
        span = self._tracer.start_span(
            f"process {message.topic()}",
            found,
            trace.SpanKind.CONSUMER,
            self._attributes(message),
            [trace.Link(sent)] if is_sent else None,
        )
        return _Begun(place_of(message), span, trace.set_span_in_context(span, found))

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
            self._failed = begun
            self._failed_ns = time.time_ns()
        else:
            span.end()

    def _attributes(self, message: Message) -> dict[str, Any]:
        place = place_of(message)
        topic, partition, offset = place.topic, place.partition, place.offset
        failed_at, failures = self._failures.get((topic, partition), (None, 0))
        attributes = {
            "messaging.system": "kafka",
            "messaging.operation.name": "process",
            "messaging.operation.type": "process",
            "messaging.destination.name": topic,
            "messaging.destination.partition.id": str(partition),
            "messaging.consumer.group.name": self._group_id,
            "messaging.kafka.offset": offset,
            "linear_retry.attempt": failures + 1 if failed_at == offset else 1,
        }
        if message.value() is None:
            attributes["messaging.kafka.message.tombstone"] = True
        return attributes | _retried(message)

    def _end_failed(self) -> None:
        failed, self._failed = self._failed, None
        if failed is not None:
            failed.span.end(self._failed_ns)


def _retried(message: Message) -> dict[str, str]:
    """Which message it is, where it comes from a retry topic: its spans of all hops have one id."""
    contents = dict(make_safe(message))
    if contents.get(SEND_TO) != RETRY.encode():
        return {}
    named = {"linear_retry.retry_id": contents.get(ID), "linear_retry.step": contents.get(STEP)}
    return {
        name: value.decode(errors="replace") for name, value in named.items() if value is not None
    }


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
