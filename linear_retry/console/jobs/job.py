"""A job on a dead-letter topic, its options and its plan, as values."""

from __future__ import annotations

from dataclasses import asdict, dataclass, field
from enum import StrEnum
from typing import Any

from linear_retry.console.letters.conditions import DONE
from linear_retry.dlq import State
from linear_retry.errors import LinearRetryError


class JobError(LinearRetryError):
    """The job cannot be started, continued or cancelled as it is."""


class Action(StrEnum):
    """What a job does with letters."""

    REPLAY = "replay"
    RESOLVE = "resolve"
    REOPEN = "reopen"
    PURGE = "purge"

    @property
    def states(self) -> tuple[State, ...]:
        """Those of the letters that are selected for it."""
        return DONE if self is Action.REOPEN else (State.OPEN,)

    @property
    def letters(self) -> str:
        """What these letters are called."""
        return "replayed or resolved letter" if self is Action.REOPEN else "open letter"


class Stage(StrEnum):
    """How far a job is. Nothing changes in Kafka before `running`."""

    PLANNING = "planning"
    PLANNED = "planned"
    RUNNING = "running"
    DONE = "done"
    CANCELLED = "cancelled"
    INTERRUPTED = "interrupted"
    FAILED = "failed"

    @property
    def is_active(self) -> bool:
        """Whether a thread works on it."""
        return self in (Stage.PLANNING, Stage.RUNNING)


@dataclass(frozen=True, slots=True, kw_only=True)
class Options:
    """How a replay is done, and what a purge deletes. `rate` is in letters a second.

    `selected` letters were counted before the plan; None: those of the plan were not.
    """

    to: str | None = None
    to_retry: str | None = None
    for_group: str | None = None
    keep_timestamp: bool = False
    check_newer: bool = False
    rate: float | None = None
    everything: bool = False
    selected: int | None = None


@dataclass(frozen=True, slots=True)
class Lane:
    """Letters of one source, which go to one partition in order. Times are -1 if unknown."""

    source: str
    target: str
    groups: list[str]
    letters: int
    offsets: str
    oldest_ms: int
    newest_ms: int


@dataclass(frozen=True, slots=True)
class Newer:
    """A letter whose key has newer messages. The key itself is not kept."""

    letter: str
    messages: int
    newest: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Summary:
    """What was counted when a job was planned; the run keeps to it.

    `ranges` has the first and last offset of the counted letters, by partition of their topic;
    `before` what a purge deletes. `left_open` counts, by reason, the letters that a replay cannot
    send, `earlier_open` those of the same keys that come before some of them and stay open.
    `mark` is where a replay looks for what became of the letters that it has `sent`.
    `topic_id` is the id of the topic, which one made again under its name does not have.
    """

    letters: int = 0
    topic_id: str | None = None
    ranges: list[tuple[int, int, int]] = field(default_factory=list)
    lanes: list[Lane] = field(default_factory=list)
    left_open: dict[str, int] = field(default_factory=dict)
    earlier_open: int = 0
    absent_groups: list[str] = field(default_factory=list)
    newer: list[Newer] = field(default_factory=list)
    newer_keys: int | None = None
    before: list[tuple[int, int]] = field(default_factory=list)
    remaining: int = 0
    remaining_open: int = 0
    mark: dict[str, Any] | None = None
    sent: int | None = None

    @property
    def targets(self) -> set[str]:
        """The topics that letters go to."""
        return {lane.target.partition("[")[0] for lane in self.lanes}

    def as_json(self) -> dict[str, Any]:
        """Returns it for `from_json`."""
        return asdict(self)

    @classmethod
    def from_json(cls, content: dict[str, Any]) -> Summary:
        """Returns what `as_json` was called of."""
        values = content | {
            "ranges": [tuple(each) for each in content["ranges"]],
            "before": [tuple(each) for each in content["before"]],
            "lanes": [Lane(**each) for each in content["lanes"]],
            "newer": [Newer(**each) for each in content["newer"]],
        }
        return cls(**values)


@dataclass(frozen=True, slots=True, kw_only=True)
class Job:
    """A job as it is now. `done` of `total` are offsets while planning, then letters.

    `outcome` says how it ended, or why it did not.
    """

    id: int
    topic: str
    action: Action
    stage: Stage
    actor: str
    why: str
    created_ms: int
    changed_ms: int
    done: int
    total: int
    outcome: str
    options: Options
    plan: Summary | None

    @property
    def may_start(self) -> bool:
        """Whether it can be started, or continued."""
        is_left = self.stage not in (Stage.DONE, Stage.PLANNING, Stage.RUNNING)
        return is_left and self.plan is not None and self.plan.letters > 0
