"""What operators have paused: nothing of it is attempted until a time, and nothing has failed."""

import math
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from types import MappingProxyType

from linear_retry.records.text import paused_text
from linear_retry.scope import Partition, Scope


@dataclass(frozen=True, slots=True)
class Pause:
    """A pause by an operator. `since_s` and `until_s` are on the monotonic clock."""

    since_s: float
    since: datetime
    until_s: float
    until: datetime
    by: str
    reason: str

    @property
    def text(self) -> str:
        """Who has paused it, and why."""
        return paused_text(self.by, self.reason)


class Pauses:
    """The pauses of a consumer, of all its partitions or of a topic. One replaces another."""

    def __init__(self) -> None:
        self._pauses: dict[Scope, Pause] = {}

    def __bool__(self) -> bool:
        return bool(self._pauses)

    @property
    def next_end_s(self) -> float:
        """When the first of them ends; infinity without any."""
        return min((each.until_s for each in self._pauses.values()), default=math.inf)

    @property
    def views(self) -> Mapping[Scope, Pause]:
        """A snapshot. Thread-safe: one atomic copy."""
        return MappingProxyType(self._pauses.copy())

    def covers(self, partition: Partition) -> bool:
        """Whether this partition is paused. Called per lane: nearly always there are none."""
        return any(scope.covers(partition) for scope in self._pauses)

    def covers_all_of(self, scope: Scope) -> bool:
        """Whether everything in `scope` is paused by one of them."""
        return any(each.topic in (None, scope.topic) for each in self._pauses)

    def put(self, scope: Scope, pause: Pause) -> None:
        self._pauses[scope] = pause

    def take_out(self, scope: Scope) -> Pause | None:
        return self._pauses.pop(scope, None)
