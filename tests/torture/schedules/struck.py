"""The states in which each kind of step has struck a member, and in which it must have."""

from collections import Counter
from collections.abc import Iterable, Iterator
from typing import get_args

from linear_retry.scope import ScopeKind
from tests.torture.schedules.schedule import Kind, State

_SCOPES: tuple[ScopeKind, ...] = get_args(ScopeKind)
_STATES: tuple[State, ...] = get_args(State)

_READING = (
    "leak",
    "dead",
    "race",
    "early_seek",
    "spoilt_headers",
    "late_fetch",
    "few_at_once",
    "jump",
    "echo",
    "stale",
    "rewind",
    "late_resume",
    "failing_seek",
    "pause_loses_seek",
)
_HANDLING = (
    "outage",
    "outage_for_some",
    "outage_for_some_keys",
    "outage_that_asks_for_time",
    "poison",
    "slow",
    "leave_the_loop",
)
_SENDING = (
    "failing_letters",
    "slow_letters",
    "lost_reports",
    "full_queue",
    "broken_producer",
    "failing_transaction",
)

SENSELESS: dict[tuple[str, State], str] = {
    **{(name, "closing"): "nothing is read any more" for name in _READING},
    **{(name, "closing"): "no handler is called any more" for name in _HANDLING},
    **{(name, "closing"): "no letter is sent any more" for name in _SENDING},
    ("leave", "closing"): "it is leaving",
}
"""What need not have struck there, and why."""


def cell(name: str, state: State, scope: ScopeKind) -> str:
    """Under which a strike is counted."""
    return f"{name} while {state}, scope {scope}"


def gaps(counts: Counter[str], kinds: Iterable[Kind]) -> list[str]:
    """What has never struck where it makes sense."""
    return [wanted for wanted in _wanted(kinds) if not counts[wanted]]


def summed_up(counts: Counter[str]) -> Counter[str]:
    """The strikes by state, for people; what is no strike stays."""
    summed: Counter[str] = Counter()
    for name, count in counts.items():
        _, found, rest = name.partition(" while ")
        summed[f"strikes {rest.partition(',')[0]}" if found else name] += count
    return summed


def _wanted(kinds: Iterable[Kind]) -> Iterator[str]:
    for kind in kinds:
        for state in _STATES if kind.strikes else ():
            if (kind.name, state) not in SENSELESS:
                yield from (cell(kind.name, state, scope) for scope in _SCOPES)
