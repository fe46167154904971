"""What is known of all groups at one moment."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from types import MappingProxyType

from linear_retry.journal.group_view import GroupView
from linear_retry.journal.standing import Lags, Liveness


@dataclass(frozen=True, slots=True)
class Trouble:
    """Why something cannot be read, and since when, in UTC milliseconds."""

    text: str
    since_ms: int


@dataclass(frozen=True, slots=True)
class Snapshot:
    """The groups of a journal. Each change makes a new one, with the next version.

    `is_complete` says whether the journal was read to its end once; until then `read` of `total`
    entries were. `liveness` is Kafka's answer about each group; a group is missing as long as it
    was not asked. `lags` has the lags of each group; a group is missing as long as they are
    unknown. `lag_trouble` says what keeps the lag of all groups from being asked.
    """

    version: int = 0
    views: tuple[GroupView, ...] = ()
    is_complete: bool = False
    read: int = 0
    total: int = 0
    trouble: Trouble | None = None
    unreadable: int = 0
    last_unreadable: str = ""
    liveness: Mapping[str, Liveness] = field(default_factory=lambda: MappingProxyType({}))
    lags: Mapping[str, Lags] = field(default_factory=lambda: MappingProxyType({}))
    lag_trouble: str | None = None

    def view(self, group: str) -> GroupView | None:
        """Returns the group; None if the journal has nothing about it."""
        return next((view for view in self.views if view.group == group), None)
