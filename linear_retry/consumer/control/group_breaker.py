"""One breaker for a group: one member attempts for all, and the others hold what they have."""

import math
from collections.abc import Callable
from dataclasses import dataclass
from uuid import uuid4

from linear_retry import events
from linear_retry.consumer.control.pausing import Pausing
from linear_retry.consumer.control.remote_commands import RemoteCommands
from linear_retry.consumer.operations.monitor import Monitor
from linear_retry.kafka import Message
from linear_retry.records.control import Command, CommandName, short
from linear_retry.retry.case import Failing
from linear_retry.retry.circuits import Circuits
from linear_retry.retry.clock import Clock
from linear_retry.retry.pauses import Pause
from linear_retry.scope import Scope

_ALL = Scope()
_GRACE_S = 5.0
"""For an attempt and the news of it, beside twice the time that the last one took."""
_CLAIM_WITHIN_S = 1.0
_ANSWER_WITHIN_S = 5.0


@dataclass(frozen=True, slots=True)
class _Lead:
    """The member that attempts for all. Times in seconds are on this member's monotonic clock.

    Its word is good until `until_s`, and never beyond `turn_ends_s`. `first_ms` is when its
    messages began to fail, in UTC.
    """

    by: str
    error: str
    first_ms: int
    since_s: float
    until_s: float
    turn_ends_s: float


class GroupBreaker:
    """Announces an outage to the group, and holds where another member was first to.

    The control topic decides who that is, as all read it in one order: the first announcement
    counts until it is over, and then the first of those who claim the next turn. A turn lasts
    `longest_s` at most, as one member's failures may be its message's own. It is advisory: each
    member's circuits work as without it, and a word that is lost, late or forged makes others wait
    for that long, or attempt once too often.
    """

    def __init__(
        self,
        member: str,
        group_id: str,
        pausing: Pausing,
        circuits: Circuits[Message],
        commands: RemoteCommands,
        monitor: Monitor,
        clock: Clock,
        rng: Callable[[], float],
        longest_s: float,
    ) -> None:
        self._member = member
        self._group_id = group_id
        self._pausing = pausing
        self._circuits = circuits
        self._commands = commands
        self._monitor = monitor
        self._clock = clock
        self._rng = rng
        self._longest_s = longest_s
        self._lead: _Lead | None = None
        self._has_announced = False
        self._may_announce = True
        self._failed_ms = 0
        self._recovered_s = -math.inf
        self._claims_at_s = math.inf
        self._gives_up_at_s = math.inf
        self.due_at_s = math.inf
        circuits.hears_group = True
        commands.on_announcement = self.take
        monitor.listen(self.on_event)

    # -- what is heard -----------------------------------------------------------------------

    def take(self, said: Command) -> None:
        """Takes what a member has announced, in the order of the topic.

        Its age counts: who reads it late does not wait for longer.
        """
        self.due_at_s = -math.inf
        lead, now_s = self._lead, self._clock.now_s()
        said_s = now_s - max(self._clock.utc_ms() - said.at_ms, 0) / 1000
        if lead is not None and lead.by != said.by and said_s < lead.until_s:
            return
        if said.command == "recovery":
            self._lead, self._recovered_s = None, said_s
            return
        is_same_turn = lead is not None and lead.by == said.by and said_s < lead.turn_ends_s
        since_s = lead.since_s if lead and is_same_turn else said_s
        turn_ends_s = since_s + self._longest_s
        self._lead = _Lead(
            by=said.by,
            error=said.reason or (lead.error if lead else ""),
            first_ms=said.at_ms if said.first_ms is None else said.first_ms,
            since_s=since_s,
            until_s=min(said_s + (said.for_s or 0), turn_ends_s),
            turn_ends_s=turn_ends_s,
        )
        if said.by != self._member:
            self._may_announce = True

    # -- what happens here -------------------------------------------------------------------

    def on_event(self, event: events.Event) -> None:
        """Announces what happens to the circuit over all that this member has."""
        match event:
            case events.CircuitOpened() | events.ProbeFailed() if event.scope == _ALL:
                self._failed(event)
            case events.CircuitClosed(scope, outcome) if scope == _ALL:
                self._may_announce = True
                if outcome == "dropped":  # there is nothing to attempt
                    self._announce_end("outage")
            case events.Stopped():
                self._announce_end("outage")

    def tick(self) -> None:
        """Begins and ends what follows from the announcements. Called once due, after the poll."""
        self.due_at_s = math.inf
        lead, held, now_s = self._lead, self._pausing.known.of_group, self._clock.now_s()
        if lead is None:
            self._let_go(held, recovered=True)
        elif lead.by == self._member:
            self._let_go(held, recovered=False)
            self._go_on(lead, now_s)
        elif now_s >= lead.until_s:
            if held is not None:
                self._claim(held, lead, now_s)
        elif self._has_succeeded_since(lead):
            self._let_go(held, recovered=True)
        else:
            self._hold(held, lead)

    # -- inside ----------------------------------------------------------------------------

    def _failed(self, event: events.CircuitOpened | events.ProbeFailed) -> None:
        circuit, lead = self._circuits.get(_ALL), self._lead
        if circuit is None or not _is_of_dependency(circuit.case):
            return
        self._failed_ms = self._clock.utc_ms()
        self.due_at_s = -math.inf
        if lead is not None and lead.by != self._member and self._clock.now_s() < lead.until_s:
            return  # held from the next tick on
        # Others have succeeded since it opened: the message fails by itself, and others need not
        # wait for it. Nor after a turn, until another member has had one.
        if circuit.opened_at_s < self._recovered_s or not self._may_announce:
            return
        first_ms = round(circuit.opened_at.timestamp() * 1000)
        self._announce("outage", event.delay_s + self._grace_s, event.error, first_ms)

    def _go_on(self, lead: _Lead, now_s: float) -> None:
        """Attempts for all: until it succeeds, has nothing to attempt, or its turn is over."""
        is_open = self._circuits.get(_ALL) is not None
        if not is_open and self._monitor.succeeded_at_s > lead.since_s:
            self._announce_end("recovery")
        elif now_s >= lead.until_s:
            self._may_announce = now_s < lead.turn_ends_s
            self._has_announced, self._lead = False, None
        else:
            self.due_at_s = now_s  # each turn: only the counts tell of a success

    def _hold(self, held: Pause | None, lead: _Lead) -> None:
        self._claims_at_s = self._gives_up_at_s = math.inf
        if held is None or held.by != lead.by:
            left_s = lead.turn_ends_s - self._clock.now_s()
            held = self._pausing.begin(_ALL, "group", left_s, lead.by, lead.error)
            self._monitor.emit(events.HeldByGroup(lead.by, lead.error, held.until))
        self._look_again(held, lead.until_s)

    def _claim(self, held: Pause, lead: _Lead, now_s: float) -> None:
        """Claims the next turn, as the last one has ended without a success.

        First those that have a message to attempt. One whose own is due much later claims nothing:
        it waits for that. Without an answer it attempts for itself.
        """
        circuit = self._circuits.get(_ALL)
        if circuit is not None and circuit.retry_at_s > now_s + _GRACE_S:
            self._let_go(held, recovered=False)
            return
        if self._claims_at_s == math.inf:
            has_failed = circuit is not None
            self._claims_at_s = now_s + (self._rng() + (not has_failed)) * _CLAIM_WITHIN_S
        if now_s < self._claims_at_s:
            self._look_again(held, self._claims_at_s)
        elif self._gives_up_at_s == math.inf:
            self._gives_up_at_s = now_s + _ANSWER_WITHIN_S
            self._announce("outage", self._grace_s, lead.error, lead.first_ms)
            self._look_again(held, self._gives_up_at_s)
        elif now_s < self._gives_up_at_s:
            self._look_again(held, self._gives_up_at_s)
        else:
            self._lead = None
            self._let_go(held, recovered=False)

    def _let_go(self, held: Pause | None, *, recovered: bool) -> None:
        self._claims_at_s = self._gives_up_at_s = math.inf
        if held is not None:
            held_s = self._pausing.end(held)
            self._monitor.emit(events.GroupHoldEnded(recovered, held_s))

    def _look_again(self, held: Pause, at_s: float) -> None:
        self._pausing.look_again(held, at_s)
        self.due_at_s = at_s

    @property
    def _grace_s(self) -> float:
        return _GRACE_S + 2 * self._monitor.took_s

    def _has_succeeded_since(self, lead: _Lead) -> bool:
        """Whether the dependency answers this member, whatever fails elsewhere."""
        ago_s = self._clock.now_s() - self._monitor.succeeded_at_s
        succeeded_ms = self._clock.utc_ms() - 1000 * ago_s
        return succeeded_ms > max(lead.first_ms, self._failed_ms)

    def _announce_end(self, name: CommandName) -> None:
        """Ends this member's outage: it has succeeded, or another may attempt for all."""
        if not self._has_announced:
            return
        self._announce(name, 0.0, "", None)
        self._has_announced, self._lead = False, None

    def _announce(self, name: CommandName, for_s: float, error: str, first_ms: int | None) -> None:
        self._has_announced = True
        command = Command(
            *(str(uuid4()), name, self._group_id, None, None, None),
            by=self._member,
            at_ms=self._clock.utc_ms(),
            reason=short(error),
            for_s=math.ceil(min(for_s, self._longest_s)),
            first_ms=first_ms,
        )
        self._commands.announce(command)


def _is_of_dependency(case: object) -> bool:
    """Whether the circuit opened for failed attempts: no letter, no limit, nothing from a note."""
    return case is None or (isinstance(case, Failing) and case.held.failures.error is not None)
