"""The lines that have to be flat, with how much each may rise, and why."""

from collections.abc import Callable
from dataclasses import dataclass, field
from statistics import fmean

from tests.soak.gauges import Gauge
from tests.soak.trend import Points, Trend, after_warm_up, trend

_MIB = 2**20
_FILLED_S = 30.0
"""A process that is starved of time still fills what is bounded: arenas by 4 MiB in 8 s."""


@dataclass(frozen=True, slots=True)
class Look:
    """What a member said that it retains: entries of state, while so many partitions were its."""

    at_s: float
    entries: int
    owned: int


@dataclass(slots=True)
class Life:
    """What was seen of one process of a member."""

    member: str
    gauges: list[Gauge] = field(default_factory=list)
    looks: list[Look] = field(default_factory=list)
    openings: int = 0
    killed: bool = False


@dataclass(frozen=True, slots=True)
class Line:
    """`may_grow` is in `unit`, over the time looked at; `per_opening` for each circuit opened.

    `share` is of its mean: what sways about that has some slope, whenever one looks.

    What was looked at for less than `settles_s` says nothing.
    """

    name: str
    unit: str
    points: Callable[[Life], Points]
    may_grow: float
    why: str
    per_opening: float = 0.0
    share: float = 0.0
    settles_s: float = 0.0

    def allowance(self, life: Life) -> float:
        points = self.points(life) if self.share else []
        mean = fmean(value for _, value in points) if points else 0.0
        return self.may_grow + self.per_opening * life.openings + self.share * mean


@dataclass(frozen=True, slots=True)
class Verdict:
    """Whether one line of one life is flat after its warm-up. `trend` None: too short to say."""

    life: Life
    line: Line
    points: Points
    trend: Trend | None

    @property
    def is_flat(self) -> bool:
        if self.trend is None or self.trend.window_s < self.line.settles_s:
            return True
        return self.trend.growth <= self.line.allowance(self.life)


LINES = (
    Line(
        "memory",
        "MiB",
        lambda life: [(one.at_s, one.resident_bytes / _MIB) for one in life.gauges],
        may_grow=1.0,
        why="librdkafka's queues and the allocator's arenas sway by as much",
        # `python -m benchmarks memory`: a bare consumer that pauses, seeks and resumes as often
        # grows by more, in the C heap of librdkafka and its binding. Nothing of it is ours to free.
        per_opening=594 / _MIB,
        settles_s=_FILLED_S,
    ),
    Line(
        "open files",
        "",
        lambda life: [(one.at_s, float(one.open_files)) for one in life.gauges],
        may_grow=1.0,
        why="a connection more while the coordinator is looked for",
    ),
    Line(
        "threads",
        "",
        lambda life: [(one.at_s, float(one.threads)) for one in life.gauges],
        may_grow=0.5,
        why="none may stay",
    ),
    Line(
        "entries/partition",
        "",
        lambda life: [(one.at_s, one.entries / one.owned) for one in life.looks if one.owned],
        may_grow=1.0,
        why="a circuit's few entries are shared by more or fewer partitions after a rebalance, and "
        "so are the keys that are held: 81 to 100 entries, with one key of a hundred",
        share=0.1,
        settles_s=_FILLED_S,
    ),
)


def verdicts(lives: list[Life], warm_up_s: float) -> list[Verdict]:
    """Each line of each life."""
    return [
        Verdict(life, line, settled, trend(settled))
        for life in lives
        for line in LINES
        for settled in [after_warm_up(line.points(life), warm_up_s)]
    ]
