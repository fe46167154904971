"""The points of its life at which a member is struck, and what brings it there."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Literal, TypeAlias

from linear_retry.scope import ScopeKind
from tests.torture.schedules.schedule import State

Company: TypeAlias = Literal["nobody", "joins", "joins and leaves"]


@dataclass(frozen=True, slots=True)
class Plot:
    """What happens to a member that reads `messages` of each of two partitions.

    `company`: another one comes once there is an event of the kind `comes_at`. The member stops
    itself after the place, or at the event, `stops_at`; `config` is its own.
    """

    script: Mapping[str, Sequence[str]] = field(default_factory=dict)
    strategy: tuple[float, ...] = (0.2, 0.3)
    messages: int = 6
    handler_s: float = 0.0
    transactional: bool = False
    company: Company = "nobody"
    comes_at: str = "Assigned"
    stops_at: str = ""
    scopes: tuple[ScopeKind, ...] = ("consumer", "topic", "partition")
    config: Mapping[str, Any] = field(default_factory=dict)
    leaves: bool = False

    @property
    def refusal(self) -> str:
        """The step of the script that what can never be handled has for ever."""
        return "outage" if self.leaves else "poison"

    def leaving(self) -> Plot:
        """The same, where what can never be handled leaves the line for a retry topic."""
        script = {place: ["outage" for _ in steps] for place, steps in self.script.items()}
        return replace(self, script=script, strategy=(), leaves=True)

    @property
    def refused(self) -> set[tuple[int, int]]:
        """Partition and offset of what can never be handled."""
        places = [place for place, steps in self.script.items() if self.refusal in steps]
        return {(int(part), int(offset)) for part, offset in (p.split("@") for p in places)}


READING = Plot()
OUTAGE = Plot({"0@3": ["outage"] * 2})
EXHAUSTED = Plot({"0@3": ["outage"] * 3})
# Whenever they come: a member that has lost its partitions attempts them once more.
_REFUSED = {"0@2": ["poison"] * 9, "1@4": ["poison"] * 9}
POISON = Plot(_REFUSED)
TRANSACTION = Plot(_REFUSED, transactional=True)
LEAVING = Plot(stops_at="0@5", handler_s=0.01)
LEAVING_OPEN = Plot({"0@3": ["outage"]}, strategy=(5.0,), stops_at="CircuitOpened")
JOINED = Plot(messages=100, handler_s=0.03, company="joins")
JOINED_OPEN = Plot(
    {"0@3": ["outage"]},
    strategy=(8.0,),
    company="joins and leaves",
    comes_at="CircuitOpened",
    # A narrower one need not cover what comes and goes.
    scopes=("consumer", "topic"),
)
# librdkafka looks every 500 ms whether it is polled.
SLOW = Plot({"0@3": ["wait 2.8"]}, config={"max.poll.interval.ms": 2000})


@dataclass(frozen=True, slots=True)
class Point:
    """One of them. `Moments` names the moments; this one surely comes `times` in its plot."""

    moment: str
    plot: Plot
    times: int = 1

    @property
    def in_poll(self) -> bool:
        """Whether librdkafka is being polled then: it counts that as polling, however long."""
        return "on_" in self.moment or "answer to the commit" in self.moment

    @property
    def state(self) -> State:
        """In which of its states the member is."""
        return next(state for state, says in _STATES if says(self))


# The first that fits.
_STATES: tuple[tuple[State, Callable[[Point], bool]], ...] = (
    ("closing", lambda point: bool(point.plot.stops_at)),
    ("in a callback", lambda point: "on_" in point.moment),
    (
        "waiting for a letter",
        lambda point: point.plot in (POISON, TRANSACTION, EXHAUSTED) and "init" not in point.moment,
    ),
    ("committing", lambda point: "commit" in point.moment),
    (
        "half-open",
        lambda point: any(
            word in point.moment for word in ("probe", "Probe", "resume", "CircuitClosed")
        ),
    ),
    ("in the handler", lambda point: "handler" in point.moment),
    ("open", lambda point: point.plot is OUTAGE),
    ("closed", lambda _: True),
)
STATES = tuple(state for state, _ in _STATES)

POINTS: tuple[Point, ...] = (
    # Beginning.
    Point("before subscribe", READING),
    Point("after subscribe", READING),
    Point("on_assign begins", READING),
    Point("before assign in on_assign", READING),
    Point("after assign in on_assign", READING),
    Point("before resume in on_assign", READING),
    Point("after resume in on_assign", READING),
    Point("on_assign ends", READING),
    # Nothing is committed: the partition begins again, and its first offset is committed.
    Point("before assign in the loop", READING),
    Point("after assign in the loop", READING),
    Point("before the synchronous commit in the loop", READING, times=2),
    Point("after the synchronous commit in the loop", READING, times=2),
    # Reading.
    Point("after a poll while closed", READING, times=6),
    Point("in the handler", READING, times=12),
    Point("after the handler", READING, times=12),
    Point("before the store after the handler", READING, times=2),
    Point("after the store after the handler", READING, times=2),
    Point("before the commit in the loop", READING),
    Point("after the commit in the loop", READING),
    Point("before the answer to the commit in the loop", READING),
    Point("after the answer to the commit in the loop", READING),
    # An outage.
    Point("after the failure of the handler", OUTAGE),
    Point("before pause in the loop", OUTAGE),
    Point("after pause in the loop", OUTAGE),
    Point("after the seek that follows a pause in the loop", OUTAGE),
    Point("at CircuitOpened", OUTAGE),
    Point("before a poll while open", OUTAGE, times=2),
    Point("in the probe", OUTAGE, times=2),
    Point("after the failure of the probe", OUTAGE),
    Point("at ProbeFailed", OUTAGE),
    Point("after the probe", OUTAGE),
    Point("before resume in the loop", OUTAGE),
    Point("after resume in the loop", OUTAGE),
    Point("after the seek that follows a resume in the loop", OUTAGE),
    Point("at CircuitClosed", OUTAGE),
    # A letter by itself.
    Point("before the letter's produce", POISON, times=2),
    Point("after the letter's produce", POISON, times=2),
    Point("before the letter's report", POISON, times=2),
    Point("after the letter's report", POISON, times=2),
    Point("before the store after a letter", POISON, times=2),
    Point("after the store after a letter", POISON, times=2),
    Point("at DeadLettered", POISON, times=2),
    Point("before the letter's report", EXHAUSTED),
    Point("before resume in the loop", EXHAUSTED),
    # A letter in a transaction.
    Point("after init_transactions", TRANSACTION),
    Point("after begin_transaction", TRANSACTION, times=2),
    Point("after the letter's produce", TRANSACTION, times=2),
    Point("after the letter's report", TRANSACTION, times=2),
    Point("before send_offsets_to_transaction", TRANSACTION, times=2),
    Point("after send_offsets_to_transaction", TRANSACTION, times=2),
    Point("before commit_transaction", TRANSACTION, times=2),
    Point("amid commit_transaction", TRANSACTION, times=2),
    Point("after commit_transaction", TRANSACTION, times=2),
    Point("before the store after a letter", TRANSACTION, times=2),
    Point("at DeadLettered", TRANSACTION, times=2),
    # Others come and go.
    Point("on_revoke begins", JOINED),
    Point("before the synchronous commit in on_revoke", JOINED),
    Point("after the synchronous commit in on_revoke", JOINED),
    Point("before unassign in on_revoke", JOINED),
    Point("after unassign in on_revoke", JOINED),
    Point("on_revoke begins", JOINED_OPEN),
    Point("before pause in on_assign", JOINED_OPEN),
    Point("after pause in on_assign", JOINED_OPEN),
    Point("on_lost begins", SLOW),
    Point("after unassign in on_lost", SLOW),
    # Leaving.
    Point("before the commit in close", LEAVING),
    Point("after the commit in close", LEAVING),
    Point("before the answer to the commit in close", LEAVING),
    Point("after the answer to the commit in close", LEAVING),
    Point("at Revoked", LEAVING),
    Point("at Stopped", LEAVING),
    Point("before the client's close", LEAVING),
    Point("after the client's close", LEAVING),
    Point("at Stopped", LEAVING_OPEN),
)
"""The number of each is its place. New ones go to the end of all: seeds stay what they are."""
