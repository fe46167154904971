"""Was anything lost, reordered, early, or attempted while its circuit was open?"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Awaitable, Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any, Literal, TypeAlias

from linear_retry import events
from linear_retry.scope import Partition, Scope

Place: TypeAlias = tuple[str, int, int]
"""Topic, partition, offset."""

_CLOCK_GRAIN_S = 1e-6


@dataclass(frozen=True, slots=True)
class Begun:
    """The handler was called."""

    at_s: float
    member: str
    place: Place


@dataclass(frozen=True, slots=True)
class Ended:
    """It returned (`done`), raised an `Exception` (`failed`) or something else (`interrupted`)."""

    at_s: float
    member: str
    place: Place
    how: Literal["done", "failed", "interrupted"]


@dataclass(frozen=True, slots=True)
class Said:
    """The consumer emitted an event."""

    at_s: float
    member: str
    event: events.Event


@dataclass(frozen=True, slots=True)
class Away:
    """The member did nothing since `since_s`: it was another's turn, or the machine stood still."""

    at_s: float
    member: str
    since_s: float


Entry: TypeAlias = Begun | Ended | Said | Away


@dataclass(slots=True)
class Witness:
    """Writes down what happens, on one clock, for all members of a group."""

    now_s: Callable[[], float]
    log: list[Entry] = field(default_factory=list)

    def listener(self, member: str) -> Callable[[events.Event], None]:
        """For `listeners=`."""
        return lambda event: self.log.append(Said(self.now_s(), member, event))

    def handler(self, member: str, inner: Callable[[Any], object]) -> Callable[[Any], None]:
        """`inner`, watched."""

        def watched(message: Any) -> None:
            with self.attempting(member, message):
                inner(message)

        return watched

    def async_handler(
        self, member: str, inner: Callable[[Any], Awaitable[object]]
    ) -> Callable[[Any], Awaitable[None]]:
        """`inner`, watched while it is awaited."""

        async def watched(message: Any) -> None:
            with self.attempting(member, message):
                await inner(message)

        return watched

    @contextmanager
    def attempting(self, member: str, message: Any) -> Iterator[None]:
        """Its body is an attempt of `message`."""
        place = (message.topic(), message.partition(), message.offset())
        self.log.append(Begun(self.now_s(), member, place))
        how: Literal["done", "failed", "interrupted"] = "interrupted"
        try:
            yield
            how = "done"
        except Exception:
            how = "failed"
            raise
        finally:
            self.log.append(Ended(self.now_s(), member, place, how))

    def away(self, member: str, since_s: float) -> None:
        """It goes on now, and could do nothing since `since_s`."""
        if self.now_s() > since_s:
            self.log.append(Away(self.now_s(), member, since_s))


def violations(
    log: list[Entry],
    visible: Mapping[Partition, Iterable[int]],
    *,
    committed: Mapping[Partition, int],
    strategy_length: int,
    letter_limit: int | None = None,
    finished: bool = True,
) -> list[str]:
    """Every guarantee that `log` breaks, one sentence each; empty where all hold.

    `visible` are the offsets that a reader of each partition finds, or found before retention.
    `finished`: the last fault is long past, so everything must be done and committed.
    """
    offsets = {partition: sorted(found) for partition, found in visible.items()}
    return [
        *in_order(log, offsets),
        *nothing_early(log),
        *nothing_while_open(log),
        *dead_lettered_only_when_due(log, strategy_length),
        *(letters_within(log, letter_limit) if letter_limit is not None else []),
        *handled_once_per_ownership(log),
        *committed_only_done(log, offsets, committed),
        *(nothing_lost(log, offsets, committed) if finished else []),
    ]


def done_places(log: list[Entry]) -> set[Place]:
    """Handled, dead-lettered, skipped, passed over, or gone by retention."""
    return {place for entry in log for place in _done_by(entry)}


def in_order(log: list[Entry], visible: Mapping[Partition, list[int]]) -> Iterator[str]:
    """An offset starts only when every visible one before it is done."""
    done: dict[Partition, set[int]] = defaultdict(set)
    first_undone: dict[Partition, int] = defaultdict(int)
    for entry in log:
        for topic, number, offset in _done_by(entry):
            done[topic, number].add(offset)
        if not isinstance(entry, Begun):
            continue
        partition, offset = entry.place[:2], entry.place[2]
        found, index = visible.get(partition, []), first_undone[partition]
        while index < len(found) and found[index] in done[partition]:
            index += 1
        first_undone[partition] = index
        if index < len(found) and found[index] < offset:
            yield f"{_at(entry)} was attempted before {found[index]} was done"


def nothing_early(log: list[Entry]) -> Iterator[str]:
    """Attempt k + 1 starts at or after the end of attempt k plus its delay.

    Or when an operator says so: that one attempt.
    """
    ended_s: dict[tuple[str, Place], float] = {}
    not_before_s: dict[tuple[str, Place], float] = {}
    for entry in log:
        match entry:
            case Ended(at_s, member, place):
                ended_s[member, place] = at_s
            case Said(
                _,
                member,
                events.CircuitOpened() | events.ProbeFailed() | events.LimitReached() as event,
            ):
                key = member, _place(event)
                not_before_s[key] = ended_s[key] + event.delay_s
            case Said(_, member, events.RetriedNow() as event):
                not_before_s.pop((member, _place(event)), None)
            case Said(_, member, events.Revoked() | events.Lost() as event):
                for key in [k for k in not_before_s if k[0] == member]:
                    if key[1][:2] in event.partitions:
                        del not_before_s[key]
            case Begun(at_s, member, place):
                allowed_s = not_before_s.pop((member, place), at_s)
                if at_s < allowed_s - _CLOCK_GRAIN_S:
                    yield f"{_at(entry)} was attempted {allowed_s - at_s:.6f} s early"


@dataclass(slots=True)
class _Open:
    held: Place | None
    retry_at_s: float
    buried: bool = False


def nothing_while_open(log: list[Entry]) -> Iterator[str]:
    """Between open and close nothing in scope is attempted but the held message, or one probe."""
    open_now: dict[tuple[str, Scope], _Open] = {}
    for entry in log:
        match entry:
            case Said(
                at_s,
                member,
                events.CircuitOpened() | events.ProbeFailed() | events.LimitReached() as event,
            ):
                was_open = (member, event.scope) in open_now
                if was_open == isinstance(event, events.CircuitOpened):
                    yield f"{at_s:.3f} {member}: {event} though {'' if was_open else 'not '}open"
                open_now[member, event.scope] = _Open(_place(event), at_s + event.delay_s)
            case Said(at_s, member, events.DeadLetterFailed() as event):
                open_now[member, event.scope] = _Open(_place(event), at_s + event.delay_s, True)
            case Said(_, member, events.CircuitClosed(scope)):
                open_now.pop((member, scope), None)
            case Said(_, member, events.Revoked() | events.Lost() as event):
                for (other, _), item in open_now.items():
                    if other == member and item.held and item.held[:2] in event.partitions:
                        item.held, item.buried = None, False
            case Begun(at_s, member, place):
                for (other, scope), item in open_now.items():
                    if other == member and scope.covers(place[:2]):
                        yield from _while_open(entry, item)


def _while_open(entry: Begun, item: _Open) -> Iterator[str]:
    if item.held is None and entry.at_s >= item.retry_at_s - 0.05:
        item.held = entry.place  # the one probe, after a revoke
    elif item.held != entry.place:
        yield f"{_at(entry)} was attempted while the circuit was open for {item.held}"
    elif item.buried:
        yield f"{_at(entry)} was attempted though only its letter was to be sent"


def dead_lettered_only_when_due(log: list[Entry], strategy_length: int) -> Iterator[str]:
    """Only after exactly the strategy's failures, or one permanent, or an operator's word.

    Each time that it was held back there may be one failure more.
    """
    failures: dict[tuple[str, Place], int] = defaultdict(int)
    held_back: dict[tuple[str, Place], int] = defaultdict(int)
    for entry in log:
        match entry:
            case Ended(_, member, place, "failed"):
                failures[member, place] += 1
            case Said(_, member, events.Revoked() | events.Lost() as event):
                for key in [k for k in failures if k[0] == member]:
                    if key[1][:2] in event.partitions:
                        del failures[key]
                        held_back.pop(key, None)
            case Said(_, member, events.LimitReached() as event):
                held_back[member, _place(event)] += 1
            case Said(_, member, events.DeadLettered(reason="exhausted") as event):
                seen = failures.get((member, _place(event)), event.failures)
                most = strategy_length + 1 + held_back[member, _place(event)]
                if seen != event.failures or not strategy_length < seen <= most:
                    yield f"{_place(event)} was exhausted after {seen} failures"


def letters_within(log: list[Entry], limit: int) -> Iterator[str]:
    """No letter is sent after `limit` in a row without a success, but on an operator's word."""
    in_a_row: dict[str, int] = defaultdict(int)
    for entry in log:
        match entry:
            case Ended(_, member, _, "done"):
                in_a_row[member] = 0
            case Said(_, member, events.DeadLettered(reason="given-up")):
                in_a_row[member] = 0
            case Said(at_s, member, events.DeadLettered() as event):
                in_a_row[member] += 1
                if in_a_row[member] > limit:
                    yield f"{at_s:.3f} {member}: {_place(event)} is letter {limit} + 1 in a row"


def handled_once_per_ownership(log: list[Entry]) -> Iterator[str]:
    """Handled again only where an ownership change or a crash lies between."""
    handled: dict[str, set[Place]] = defaultdict(set)
    for entry in log:
        match entry:
            case Begun(_, member, place):
                if place in handled[member]:
                    yield f"{_at(entry)} was attempted again though done in this ownership"
            case Ended(_, member, place, "done"):
                handled[member].add(place)
            case Said(at_s, member, events.DeadLettered() as event):
                if _place(event) in handled[member]:
                    yield f"{at_s:.3f} {member}: a second letter for {_place(event)}"
                handled[member].add(_place(event))
            case Said(_, member, events.Revoked() | events.Lost() | events.Assigned() as event):
                handled[member] = {p for p in handled[member] if p[:2] not in event.partitions}
            case Said(_, member, events.HandlerTooSlow()):
                handled[member].clear()


def committed_only_done(
    log: list[Entry], visible: Mapping[Partition, list[int]], committed: Mapping[Partition, int]
) -> Iterator[str]:
    """What is committed is done."""
    done = done_places(log)
    for partition, next_offset in committed.items():
        for offset in visible.get(partition, []):
            if offset < next_offset and (*partition, offset) not in done:
                yield f"{partition} is committed up to {next_offset}, and {offset} is not done"


def nothing_lost(
    log: list[Entry], visible: Mapping[Partition, list[int]], committed: Mapping[Partition, int]
) -> Iterator[str]:
    """In the end everything is done and committed."""
    done = done_places(log)
    for partition, found in visible.items():
        undone = [offset for offset in found if (*partition, offset) not in done]
        if undone:
            yield f"{partition}: never done: {undone[:10]} ({len(undone)} in all)"
        elif found and committed.get(partition, 0) <= found[-1]:
            yield f"{partition}: done up to {found[-1]}, committed {committed.get(partition)}"


def _done_by(entry: Entry) -> Iterator[Place]:
    match entry:
        case Ended(_, _, place, "done"):
            yield place
        case Said(_, _, events.DeadLettered() | events.Skipped() | events.PassedOver() as event):
            yield _place(event)
        case Said(_, _, events.DataLost() as event):
            until = event.offset + 1 if event.next_offset is None else event.next_offset
            for offset in range(event.offset, until):
                yield event.topic, event.partition, offset


def _place(event: Any) -> Place:
    return event.topic, event.partition, event.offset


def _at(entry: Begun | Ended) -> str:
    topic, partition, offset = entry.place
    return f"{entry.at_s:.3f} {entry.member}: {topic}[{partition}]@{offset}"
