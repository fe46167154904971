"""The episodes in a journal: each period in which one circuit was open."""

from collections import deque
from collections.abc import Collection
from dataclasses import dataclass, replace
from typing import TypeAlias, get_args

from linear_retry import events as e
from linear_retry.events import CloseOutcome
from linear_retry.journal.entry import LAST_MS, Entry
from linear_retry.journal.group_state import to_ms
from linear_retry.scope import Place, Scope

Circuit: TypeAlias = tuple[str, str, Scope]
"""The group, the instance of its member, and the scope."""

_Transition: TypeAlias = (
    e.CircuitOpened
    | e.ProbeFailed
    | e.RetriedNow
    | e.CircuitClosed
    | e.DeadLetterFailed
    | e.LimitReached
)
_MOST = 20_000


@dataclass(frozen=True, slots=True, kw_only=True)
class Episode:
    """A period in which one circuit was open, as its member's entries show it.

    `sequence` is the number of its first entry. `opened_ms`, `held` and `error`, from its opening,
    are None if that is not in the journal; `outcome` and `open_s` if its close is not. `attempts`
    are those that failed, without what the limit holds. `retry_at_ms` is when the next attempt is
    due, and None unless it is open. `clock_ms` is how far the brokers' clock is ahead of the
    member's.
    """

    group: str
    member: str
    instance: str
    scope: Scope
    sequence: int
    last_ms: int
    attempts: int = 1
    opened_ms: int | None = None
    held: Place | None = None
    error: str | None = None
    outcome: CloseOutcome | None = None
    open_s: float | None = None
    is_open: bool = False
    retry_at_ms: int | None = None
    clock_ms: int = 0

    @property
    def circuit(self) -> Circuit:
        return self.group, self.instance, self.scope

    @property
    def began_ms(self) -> int:
        """When it opened; without its opening, as long before its close as that says."""
        if self.opened_ms is not None:
            return self.opened_ms + self.clock_ms
        open_ms = (self.open_s or 0) * 1000
        # A garbled entry may have any number.
        known_ms = int(open_ms) if 0 <= open_ms <= LAST_MS else 0
        return self.last_ms - known_ms + self.clock_ms

    @property
    def ended_ms(self) -> int:
        """When its last entry was written."""
        return max(self.began_ms, self.last_ms + self.clock_ms)

    @property
    def waits_until_ms(self) -> int:
        """When it ended; if it is open, when the next attempt is due."""
        return max(self.ended_ms, (self.retry_at_ms or 0) + self.clock_ms)


class Episodes:
    """Collects the episodes of all groups: those that have no end yet, and the latest others.

    Not those of single keys: what they wait for is no outage, or many of them have opened a wider
    circuit.

    Of the entries of one circuit, a later one must not come first; of others, any order will do.
    """

    def __init__(self, most: int = _MOST) -> None:
        self._unended: dict[Circuit, Episode] = {}
        self._ended: deque[Episode] = deque(maxlen=most)

    @property
    def is_full(self) -> bool:
        """Whether older ones may have been left out."""
        return len(self._ended) == self._ended.maxlen

    def take(self, entry: Entry) -> None:
        """Adds an entry; each must come once."""
        event = entry.event
        if not isinstance(event, get_args(_Transition)) or event.scope.key is not None:
            return
        circuit = entry.group, entry.instance, event.scope
        before = self._unended.pop(circuit, None)
        if isinstance(event, e.CircuitOpened) and before is not None:
            self._ended.append(replace(before, retry_at_ms=None))
            before = None
        known = _begun(entry, event) if before is None else _after(before, entry, event)
        if isinstance(event, e.CircuitClosed):
            self._ended.append(known)
        else:
            self._unended[circuit] = known

    def since(self, since_ms: int, open_now: Collection[Circuit]) -> list[Episode]:
        """Returns those that ended then or later; of those without an end, `open_now` are open."""
        unended = (
            replace(each, is_open=True)
            if each.circuit in open_now
            else replace(each, retry_at_ms=None)
            for each in self._unended.values()
        )
        found = (*self._ended, *unended)
        return [each for each in found if each.is_open or each.ended_ms >= since_ms]


def _begun(entry: Entry, event: _Transition) -> Episode:
    first = Episode(
        group=entry.group,
        member=entry.member,
        instance=entry.instance,
        scope=event.scope,
        sequence=entry.sequence,
        last_ms=entry.at_ms,
        retry_at_ms=_retry_at_ms(entry, event),
    )
    if isinstance(event, e.CircuitOpened):
        return replace(first, opened_ms=entry.at_ms, held=event.place, error=event.error)
    return _after(first, entry, event)


def _after(before: Episode, entry: Entry, event: _Transition) -> Episode:
    match event:
        case e.ProbeFailed():
            known = replace(before, attempts=before.attempts + 1)
        case e.CircuitClosed(outcome=outcome, open_s=open_s):
            known = replace(before, outcome=outcome, open_s=open_s)
        case _:
            known = before
    return replace(known, last_ms=entry.at_ms, retry_at_ms=_retry_at_ms(entry, event))


def _retry_at_ms(entry: Entry, event: _Transition) -> int | None:
    match event:
        case e.CircuitClosed():
            return None
        case e.RetriedNow():
            return entry.at_ms
        case _:
            return to_ms(event.retry_at)
