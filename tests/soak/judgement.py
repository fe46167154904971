"""The judgement of a soak: guarantees, and lines that are not flat."""

from collections import Counter
from dataclasses import dataclass
from typing import Any

from linear_retry import events
from linear_retry.kafka.consumer.messages import read
from linear_retry.records.dead_letter import DeadLetter, parse
from linear_retry.testing import (
    AttemptFinished,
    Committed,
    Entry,
    EventEmitted,
    all_guarantees,
    broken,
)
from tests.soak.lines import Verdict, verdicts
from tests.soak.soak import STRATEGY, Soak
from tests.testing.violations import done_places

_SHOWN_POINTS = 200

ALIVE_WITHIN_S = 60.0
"""The watchdog of a dead partition is patient for 5 s, then for 10; and other work is going on."""

LONGEST_IDLE_S = 60.0
"""Ten sessions: after a rebalance each member has partitions, and each partition has messages."""


@dataclass(frozen=True, slots=True)
class Judgement:
    """`broken` has one text for each guarantee that does not hold."""

    broken: list[str]
    lines: list[Verdict]
    counts: Counter[str]
    seed: int
    seconds: float

    @property
    def is_good(self) -> bool:
        return not self.broken and all(line.is_flat for line in self.lines)

    def to_json(self) -> dict[str, Any]:
        """With some of the points of each line, to be drawn by others."""
        return {
            "good": self.is_good,
            "seed": self.seed,
            "seconds": self.seconds,
            "counts": dict(self.counts),
            "broken": self.broken,
            "lines": [_line_in_json(verdict) for verdict in self.lines],
        }


def judged(soak: Soak) -> Judgement:
    """To be asked once the soak has run."""
    log = soak.log()
    log.append(Committed(log[-1].at_s, "", soak.committed))
    guarantees = all_guarantees(
        soak.visible(),
        strategy_length=None if soak.keys else len(STRATEGY),
        alive_within_s=ALIVE_WITHIN_S,
        retries=soak.retries,
        keys=soak.keys or None,
    )
    found = [str(violation) for violation in broken(log, guarantees)]
    found += _idle(soak, log)
    counts = soak.status.counts | Counter(
        {
            "produced": soak.status.produced,
            "done": sum(place.topic == soak.topic for place in done_places(log)),
        }
    )
    return Judgement(
        found + _wrong_letters(soak, log),
        verdicts(soak.lives, soak.course.warm_up_s),
        counts,
        soak.course.seed,
        soak.course.seconds,
    )


def _idle(soak: Soak, log: list[Entry]) -> list[str]:
    """A member that lives has messages to handle until the end: it is not out of its group."""
    last_s = {entry.member: entry.at_s for entry in log if isinstance(entry, AttemptFinished)}
    living = [life for life in soak.lives if not life.killed and life.gauges]
    idle_s = {
        life.member: life.gauges[-1].at_s - last_s.get(life.member, life.gauges[0].at_s)
        for life in living
    }
    return [
        f"{member} has handled nothing in its last {since_s:.0f} s"
        for member, since_s in idle_s.items()
        if since_s > LONGEST_IDLE_S
    ]


def _wrong_letters(soak: Soak, log: list[Entry]) -> list[str]:
    """Each message that was given up has a letter, and no other has one."""
    letters = [_letter(message) for message in soak.kafka.read(soak.letters)]
    there = {letter.retry_id for letter in letters}
    places = {
        (letter.destination, letter.original_partition, letter.original_offset)
        for letter in letters
    }
    emitted = {
        one.event.retry_id
        for one in log
        if isinstance(one, EventEmitted) and isinstance(one.event, events.DeadLettered)
    }
    # One that was killed after the acknowledgement could not say so: its successor sends another.
    return [
        *(f"{name} is dead-lettered, and no letter is there" for name in sorted(emitted - there)),
        *(f"{name} has a letter that nobody sent" for name in sorted(there - emitted)),
        *(f"{place} is poison, and has no letter" for place in sorted(soak.poisoned() - places)),
    ]


def _letter(message: Any) -> DeadLetter:
    record = read(message)
    return parse(record.headers, record.key, record.value)


def _line_in_json(verdict: Verdict) -> dict[str, Any]:
    step = max(1, len(verdict.points) // _SHOWN_POINTS)
    trend = verdict.trend
    return {
        "member": verdict.life.member,
        "killed": verdict.life.killed,
        "openings": verdict.life.openings,
        "line": verdict.line.name,
        "unit": verdict.line.unit,
        "flat": verdict.is_flat,
        "growth": trend and trend.growth,
        "growth_per_hour": trend and trend.per_hour,
        "window_s": trend and trend.window_s,
        "may_grow": verdict.line.allowance(verdict.life),
        "why": verdict.line.why,
        "points": [list(point) for point in verdict.points[::step]],
    }
