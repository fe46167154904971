"""What is paused by order: nothing of it is attempted until a time, and nothing has failed."""

import math
from dataclasses import dataclass
from datetime import datetime
from typing import Literal, TypeAlias

from linear_retry.records.text import held_by_group_text, paused_text
from linear_retry.scope import Partition, Scope

PausedFor: TypeAlias = Literal["pause", "group"]
"""An operator's pause, or that of a member that holds while another probes for the group."""


@dataclass(frozen=True, slots=True)
class Pause:
    """A pause of `scope` by somebody else. `since_s` and `until_s` are on the monotonic clock.

    `until_s` is when to look at it again, and `until` what is said of its end.
    """

    scope: Scope
    waits_for: PausedFor
    since_s: float
    since: datetime
    until_s: float
    until: datetime
    by: str
    reason: str

    @property
    def text(self) -> str:
        """Who has paused it, and why."""
        text = paused_text if self.waits_for == "pause" else held_by_group_text
        return text(self.by, self.reason)


class Pauses:
    """The pauses of a consumer, of all its partitions or of a topic.

    An operator's replaces another of the same scope, and the group's that of the group.
    """

    def __init__(self) -> None:
        self._pauses: dict[tuple[PausedFor, Scope], Pause] = {}

    def __bool__(self) -> bool:
        return bool(self._pauses)

    @property
    def next_end_s(self) -> float:
        """When the first of them is to be looked at; infinity without any."""
        return min((each.until_s for each in self._pauses.values()), default=math.inf)

    @property
    def all(self) -> tuple[Pause, ...]:
        """A snapshot, the group's first. Thread-safe: one atomic copy."""
        return tuple(sorted(self._pauses.copy().values(), key=lambda each: each.waits_for))

    @property
    def by_operators(self) -> tuple[Pause, ...]:
        """Those that operators have begun."""
        return tuple(each for each in self.all if each.waits_for == "pause")

    @property
    def of_group(self) -> Pause | None:
        """The one during which another member probes for the group."""
        return self.get("group", Scope()) if self._pauses else None

    def get(self, waits_for: PausedFor, scope: Scope) -> Pause | None:
        return self._pauses.get((waits_for, scope))

    def covers(self, partition: Partition) -> bool:
        """Whether this partition is paused. Called per lane: nearly always there are none."""
        return any(scope.covers(partition) for _, scope in self._pauses)

    def covers_all_of(self, scope: Scope) -> bool:
        """Whether everything in `scope` is paused by one of them."""
        return any(each.topic in (None, scope.topic) for _, each in self._pauses)

    def put(self, pause: Pause) -> None:
        self._pauses[pause.waits_for, pause.scope] = pause

    def take_out(self, pause: Pause) -> None:
        del self._pauses[pause.waits_for, pause.scope]
