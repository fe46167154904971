"""Receives and counts every event of a consumer, and records how each use begins and ends."""

import math
from abc import ABC, abstractmethod
from bisect import bisect_left
from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass
from datetime import datetime
from types import MappingProxyType, TracebackType
from typing import NamedTuple

from linear_retry import events
from linear_retry.consumer.operations.health import End
from linear_retry.events import Event, Listener
from linear_retry.journal.journal import Journal, JournalContext
from linear_retry.kafka import Message
from linear_retry.log.lines import log, log_listener_failure, log_listener_undone
from linear_retry.records.text import brief
from linear_retry.retry.callables import UndoneError, check_result
from linear_retry.scope import Partition, Scope

HANDLED_WITHIN_S = (0.001, 0.01, 0.1, 0.5, 1.0, 5.0, 30.0, 60.0, 300.0, float("inf"))


class Happened(NamedTuple):
    """A kind of event, and where. `reason` is the event's reason, outcome or retry topic, or "".

    `topic` and `partition` are None for events that concern no single partition.
    """

    event: str
    topic: str | None = None
    partition: int | None = None
    reason: str = ""


@dataclass(frozen=True, slots=True)
class Counts:
    """The totals of one consumer since it was created.

    A batch is what the handler is given between two polls. `handled_within` is a histogram of
    batch times, with the upper bounds `HANDLED_WITHIN_S`; `handling_s` is their sum. `waits` and
    `waited_s` are the number and the sum of the delays per partition, counted when a delay begins.
    """

    succeeded: int
    failed: int
    handling_s: float
    handled_within: tuple[int, ...]
    events: Mapping[Happened, int]
    waits: Mapping[Partition, int]
    waited_s: Mapping[Partition, float]


class BoundListener(ABC):
    """A listener that serves one consumer, and learns its group when that is created."""

    @abstractmethod
    def bind(self, group_id: str) -> None:
        """Binds it to a group. Raises `ConfigurationError` if it is bound to another consumer."""

    @abstractmethod
    def __call__(self, event: Event) -> object:
        """Receives an event, like any listener."""


def bind_listeners(listeners: Iterable[Listener], context: JournalContext) -> None:
    """Binds each `BoundListener`. Raises `ConfigurationError` if one is bound already."""
    for listener in listeners:
        if isinstance(listener, Journal):
            listener.bind(context)
        elif isinstance(listener, BoundListener):
            listener.bind(context.group)


class Monitor:
    """Receives every event of a consumer first: counts it, keeps the inputs of health, and calls
    the listeners.

    Written by the owner thread and readable from any: each write is one assignment. There is no
    cost per message: a batch is counted when it returns. `handed_out` is the start time and the
    first message of the batch at the handler; of several, of that handed out first. `took_s` is how
    long the last batch took there, and `succeeded_at_s` when a message last succeeded. No keys or
    offsets are kept, so its size is bounded by partitions and kinds of events.
    It is a context manager around each use of the consumer, and records the exception that ends it.
    """

    def __init__(self, listeners: Iterable[Listener], utc_ms: Callable[[], int]) -> None:
        """`listeners` are the user's, called after the log, in their order."""
        self._listeners: tuple[Listener, ...] = (log, *listeners)
        self._undone = set[int]()
        self._utc_ms = utc_ms
        self.joined = False
        self.end: End | None = None
        self.errors: dict[Scope, str] = {}
        self.unreadable: Mapping[Partition, events.PartitionUnreadable] = {}
        self.succeeded = 0
        self.failed = 0
        self.succeeded_at_s = -math.inf
        self.took_s = 0.0
        self.handed_out: tuple[float, Message] | None = None
        self._handling_s = 0.0
        self._within = [0] * len(HANDLED_WITHIN_S)
        self._events: dict[Happened, int] = {}
        self._waits: dict[Partition, int] = {}
        self._waited_s: dict[Partition, float] = {}
        self._last_wait: tuple[Partition, datetime] | None = None
        self._on_batch: tuple[Callable[[float], object], ...] = ()

    def listen(self, listener: Listener) -> None:
        """Adds a listener, called after all others."""
        self._listeners += (listener,)

    def on_batch(self, told: Callable[[float], object]) -> None:
        """Lets `told`, which must not raise, have the seconds of each batch at the handler."""
        self._on_batch += (told,)

    def emit(self, event: events.Event) -> None:
        """Counts an event, then calls the listeners, and logs those that fail."""
        place = getattr(event, "topic", None), getattr(event, "partition", None)
        happened = Happened(type(event).__name__, *place, _reason(event))
        self._events[happened] = self._events.get(happened, 0) + 1
        self._note(event)
        for listener in self._listeners:
            try:
                answer = listener(event)
                if answer is not None:
                    check_result(answer)
            except UndoneError as undone:
                # Once: the work of a future may be under way, as of an executor's `submit`.
                if id(listener) not in self._undone:
                    self._undone.add(id(listener))
                    log_listener_undone(listener, str(undone))
            except Exception:  # noqa: BLE001  (a listener must not end it)
                log_listener_failure(listener)

    def handled(self, count: int, now_s: float) -> None:
        """Counts messages that the handler is done with."""
        self.succeeded += count
        self.succeeded_at_s = now_s

    def end_batch(self, took_s: float) -> None:
        """Counts a batch that is back from the handler."""
        self.took_s = took_s
        self._handling_s += took_s
        self._within[bisect_left(HANDLED_WITHIN_S, took_s)] += 1
        for told in self._on_batch:
            told(took_s)

    def counts(self) -> Counts:
        """A snapshot. Each part is copied atomically, as the loop keeps running."""
        return Counts(
            self.succeeded,
            self.failed,
            self._handling_s,
            tuple(self._within),
            MappingProxyType(self._events.copy()),
            MappingProxyType(self._waits.copy()),
            MappingProxyType(self._waited_s.copy()),
        )

    # -- how a use begins and ends -----------------------------------------------------------

    def begin(self) -> None:
        """Begins a use, and forgets how the last one ended."""
        self.end = None

    def finish(self) -> None:
        """Notes that it is stopped or closed. An earlier fatal end stays."""
        if self.end is None:
            self.end = End(self._utc_ms())

    def __enter__(self) -> None:
        """Does nothing: the outcome is recorded on exit."""

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if error is not None:
            # Ctrl-C, sys.exit and a cancelled task are the program's own ways to end it.
            self.end = End(self._utc_ms(), brief(error), isinstance(error, Exception))

    # -- inside ------------------------------------------------------------------------------

    def _note(self, event: events.Event) -> None:
        match event:
            case events.Assigned():
                self.joined = True
            case events.Revoked(partitions):
                self._forget(partitions)
            case events.Lost(partitions):
                self._forget(partitions)
                self.joined = False
            case events.ClientReplaced():
                self.joined = False
            case (
                events.CircuitOpened()
                | events.ProbeFailed()
                | events.DeadLetterFailed()
                | events.LimitReached()
            ):
                self.errors[event.scope] = event.error
                self._note_wait((event.topic, event.partition), event.delay_s, event.retry_at)
            case events.KeyBlocked():
                self.errors[event.scope] = event.error
            case events.CircuitClosed():
                self.errors.pop(event.scope, None)
            case events.PartitionUnreadable(topic, partition):
                self.unreadable = {**self.unreadable, (topic, partition): event}
            case events.PartitionReadable(topic, partition):
                self._forget([(topic, partition)])
            case events.Stopped():
                self.finish()

    def _note_wait(self, partition: Partition, delay_s: float, retry_at: datetime) -> None:
        # If a failed or deferred letter opens the circuit, two events report one wait.
        if self._last_wait != (partition, retry_at):
            self._last_wait = partition, retry_at
            self._waits[partition] = self._waits.get(partition, 0) + 1
            self._waited_s[partition] = self._waited_s.get(partition, 0.0) + delay_s

    def _forget(self, partitions: Collection[Partition]) -> None:
        if self.unreadable:
            kept = [key for key in self.unreadable if key not in partitions]
            self.unreadable = {key: self.unreadable[key] for key in kept}


def _reason(event: events.Event) -> str:
    """Returns the reason only if it is one of few values; some events have an error text there."""
    match event:
        case events.DeadLettered():
            return event.reason
        case events.CircuitClosed():
            return event.outcome
        case events.SentToRetry():
            return event.retry_topic
        case events.ClientError():
            return event.code
        case _:
            return ""
