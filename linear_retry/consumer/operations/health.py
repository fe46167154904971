"""Evaluates a consumer's health: its state, the reason, since when and until when."""

from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta
from typing import Literal, TypeAlias

from linear_retry import events
from linear_retry.events import WaitReason
from linear_retry.journal.entry import Process
from linear_retry.kafka import Message
from linear_retry.kafka.consumer.messages import place_of
from linear_retry.retry.circuits import CircuitView
from linear_retry.scope import Partition, Place, Scope

_WHY: Mapping[WaitReason | None, str] = {
    "letter": ", and it cannot be sent on",
    "limit": ", by the limit of messages in a row that leave the line: fix the handler, or lift "
    "the limit",
}

HealthState: TypeAlias = Literal["starting", "consuming", "open", "stuck", "dead", "stopped"]


@dataclass(frozen=True, slots=True)
class Health:
    """The health of a consumer. Times are aware, UTC.

    `alive`: nothing has ended it, and it polls within `max.poll.interval.ms`. `ready`: it is in its
    group, and has not been asked to stop. `state`:

    - `starting`: it is not in its group, or no longer: it joins;
    - `consuming`: it consumes; if messages of retry topics wait in memory, `until` is when the
      first is due, and nothing is wrong; if some partitions cannot be read, `reason` names one of
      them, with `error`, and `until`, when it is read again; if one ends before what was read,
      `reason` and `error` say so, in the other states too, and so they do of a partition that waits
      for where an inbox has it start; if keys are held, `reason` says how
      many, `error` and `until` are of the one held for the longest, and the others go on;
    - `open`: healthy, but a circuit has been open since `since`, until `until`, because of `error`;
      of several, the one that opened first. During its attempt `until` is in the past. The error is
      known even if its message went to another member;
    - `stuck`: no poll for longer than `max.poll.interval.ms`, since `since`: a handler hangs, or
      your own loop does not ask for the next attempt;
    - `dead`: `error` ended it, at `since`;
    - `stopped`: it ended as requested, at `since`.

    `reason` explains the state in a sentence; with `concurrency` above 1 it also names a handler
    that has not returned for longer than `max.poll.interval.ms`. `polled_s` is the time since the
    last poll; None before the first. `waiting` is the number of messages in memory that wait for
    their retry: the retry line's `lag` counts the others too. `member` is the consumer's name, as
    in the journal, and `process` its process.
    """

    state: HealthState
    alive: bool
    ready: bool
    reason: str
    since: datetime | None = None
    until: datetime | None = None
    error: str | None = None
    polled_s: float | None = None
    member: str | None = None
    process: Process | None = None
    waiting: int = 0


@dataclass(frozen=True, slots=True)
class End:
    """How the last use ended. `is_error`: the program did not request it."""

    at_ms: int
    error: str | None = None
    is_error: bool = False


@dataclass(frozen=True, slots=True)
class HealthInputs:
    """The values that health is evaluated from, at one moment.

    `polled_s` is the time since the last poll, None before the first; `limit_s` is
    `max.poll.interval.ms`; `handed_out` is the first message of the batch that has been at the
    handler for the longest, for `handling_s` by now.
    """

    utc_ms: int
    limit_s: float
    polled_s: float | None
    handed_out: Message | None
    joined: bool
    stopping: bool
    end: End | None
    circuits: Mapping[Scope, CircuitView]
    errors: Mapping[Scope, str] = field(default_factory=dict)
    """The last error of each open circuit."""
    unreadable: Mapping[Partition, events.PartitionUnreadable] = field(default_factory=dict)
    """The partitions that are blocked by an unreadable batch."""
    short: Mapping[Partition, int] = field(default_factory=dict)
    """The partitions whose log ends below what was read, up to this offset."""
    unplaced: Collection[Partition] = ()
    """The partitions of which it is not known yet where they start."""
    waiting: int = 0
    """The messages of retry topics that wait in memory; the first is due at `due_ms`."""
    due_ms: int | None = None
    handling_s: float = 0.0


def evaluate(inputs: HealthInputs) -> Health:
    """Returns the first state that applies, from worst to best.

    A log that ends too early, a start that is not known, and a worker whose handler hangs are named
    with any of them, but for an end.
    """
    health = _state(inputs)
    if inputs.end is not None:
        return health
    for problem in (_short(inputs), _unplaced(inputs), _hanging(inputs)):
        if problem is not None:
            reason, error = f"{health.reason}; {problem}", health.error or problem
            health = replace(health, reason=reason, error=error)
    return health


def _short(inputs: HealthInputs) -> str | None:
    if not inputs.short:
        return None
    (topic, partition), offset = next(iter(inputs.short.items()))
    others = len(inputs.short) - 1
    more = f", as do {others} other partitions" if others else ""
    return (
        f"{topic}[{partition}] was read up to offset {offset}, and ends before it{more}: the "
        "broker has lost the end of its log, or the topic was deleted and created again"
    )


def _unplaced(inputs: HealthInputs) -> str | None:
    if not inputs.unplaced:
        return None
    topic, partition = min(inputs.unplaced)
    others = len(inputs.unplaced) - 1
    more = f" (and {others} other partitions)" if others else ""
    return (
        f"{topic}[{partition}]{more} is not read yet: where it starts is in a database that does "
        "not answer, or in which its earlier owner has a transaction open"
    )


def _hanging(inputs: HealthInputs) -> str | None:
    if inputs.handed_out is None or inputs.handling_s <= inputs.limit_s:
        return None
    if inputs.polled_s is not None and inputs.polled_s > inputs.limit_s:
        return None  # nobody polls either: that is its state
    return (
        f"the handler of {place_of(inputs.handed_out)} or a later message has not returned for "
        f"{inputs.handling_s:.0f} s, max.poll.interval.ms allows {inputs.limit_s:.3g} s"
    )


def _state(inputs: HealthInputs) -> Health:
    polled_s, ready = inputs.polled_s, inputs.joined and not inputs.stopping
    reason = "it was asked to stop" if inputs.stopping else "it consumes"
    well = Health("consuming", True, ready, reason, polled_s=polled_s, waiting=inputs.waiting)
    if inputs.end is not None:
        return _ended(well, inputs.end)
    if polled_s is not None and polled_s > inputs.limit_s:
        return _stuck(well, inputs, polled_s)
    longest = _open_longest(inputs, lambda scope: scope.key is None)
    if longest is not None:
        return _open(well, inputs, longest)
    if not inputs.joined:
        return replace(
            well, state="starting", reason="not in its group: it has not started, or is joining"
        )
    if inputs.unreadable:
        return _unreadable(well, inputs)
    key = _open_longest(inputs, lambda scope: scope.key is not None)
    if key is not None:
        return _with_held_keys(well, inputs, key)
    return well if inputs.due_ms is None else _waiting(well, _time(inputs.due_ms))


def _open_longest(inputs: HealthInputs, chosen: Callable[[Scope], bool]) -> Scope | None:
    """Returns the scope of those chosen whose circuit opened first; None: none is open."""
    opened = [
        (view.since, scope)
        for scope, view in inputs.circuits.items()
        if view.since is not None and chosen(scope)
    ]
    return min(opened, key=lambda pair: pair[0])[1] if opened else None


def _ended(well: Health, end: End) -> Health:
    return replace(
        well,
        state="dead" if end.is_error else "stopped",
        alive=False,
        ready=False,
        reason="stopped" if end.error is None else f"ended by {end.error}",
        since=_time(end.at_ms),
        error=end.error,
    )


def _stuck(well: Health, inputs: HealthInputs, polled_s: float) -> Health:
    if inputs.handed_out is None:
        where = "no handler has a message, so librdkafka hangs, or a loop of your own"
    else:
        where = f"the handler of {place_of(inputs.handed_out)} or a later message has not returned"
    limit = f"max.poll.interval.ms allows {inputs.limit_s:.3g} s"
    reason = f"no poll for {polled_s:.0f} s, {limit}: {where}"
    since = _time(inputs.utc_ms) - timedelta(seconds=polled_s)
    return replace(well, state="stuck", alive=False, ready=False, reason=reason, since=since)


def _open(well: Health, inputs: HealthInputs, scope: Scope) -> Health:
    view = inputs.circuits[scope]
    away = "" if inputs.joined else "; not in its group"
    return replace(
        well,
        state="open",
        reason=f"a circuit is open, {_until(view)}{away}",
        since=view.since,
        until=view.retry_at,
        error=view.error or inputs.errors.get(scope),
    )


def _with_held_keys(well: Health, inputs: HealthInputs, first: Scope) -> Health:
    view = inputs.circuits[first]
    held = [each for scope, each in inputs.circuits.items() if scope.key is not None]
    blocked = sum(each.waits_for == "operator" for each in held)
    how_many = f"{len(held)}, {blocked} of them blocked" if blocked else f"{len(held)}"
    return replace(
        well,
        reason=f"{well.reason}; keys that are held: {how_many}, the first {_until(view)}",
        since=view.since,
        until=view.retry_at,
        error=view.error,
    )


def _until(view: CircuitView) -> str:
    """Says until when it waits, and for what."""
    if view.waits_for in ("pause", "group"):
        return f"{_when(view)}: {view.error}"
    held = (
        "the next message is its probe"
        if view.offset is None
        else f"{view.topic}[{view.partition}]@{view.offset} is held, failures: {view.failures}"
    )
    held += _WHY.get(view.waits_for, "")
    return f"{_when(view)}: {held}"


def _when(view: CircuitView) -> str:
    if view.state != "open":
        return "half-open"
    if view.retry_at is None:
        return "until an operator retries it or gives it up"
    return f"until {view.retry_at:%Y-%m-%dT%H:%M:%S}Z"


def _unreadable(well: Health, inputs: HealthInputs) -> Health:
    event = next(iter(inputs.unreadable.values()))
    where = Place(event.topic, event.partition, event.offset)
    others = len(inputs.unreadable) - 1
    more = f", and {others} other partitions" if others else ""
    reason = f"it consumes, but {where} cannot be read{more}: skip_unreadable skips it"
    return replace(well, reason=reason, until=event.retry_at, error=event.error)


def _waiting(well: Health, due: datetime) -> Health:
    first = f"the first until {due:%Y-%m-%dT%H:%M:%S}Z"
    reason = f"{well.reason}; messages that wait for their retry: {well.waiting}, {first}"
    return replace(well, reason=reason, until=due)


def _time(utc_ms: int) -> datetime:
    return datetime.fromtimestamp(utc_ms / 1000, UTC)
