"""Which attempts failed, and until when may nothing follow?"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from linear_retry.demo.evidence import SETTLED, Attempt, Evidence
from linear_retry.events import Lost, Revoked


@dataclass(frozen=True, slots=True)
class Failure:
    """An attempt that failed, and the earliest time that its order may be attempted again."""

    attempt: Attempt
    count: int
    due_s: float


def failures_of(evidence: Evidence) -> tuple[Failure, ...]:
    moved = rebalances(evidence)
    counts: defaultdict[tuple[int, int, int], int] = defaultdict(int)
    failures: list[Failure] = []
    for attempt in by_time(evidence.attempts):
        if attempt.answer in SETTLED:
            continue
        # A partition that was taken away begins its strategy anew.
        life = sum(1 for at_s in moved if at_s <= attempt.started_s)
        key = (attempt.partition, attempt.offset, life)
        counts[key] += 1
        delay_s = _delay_s(evidence.delays_s, counts[key])
        due_s = attempt.ended_s + max(delay_s, attempt.retry_after_s)
        failures.append(Failure(attempt, counts[key], due_s))
    return tuple(failures)


def _delay_s(delays_s: Sequence[float], failures: int) -> float:
    """Beyond its end a strategy gives up: no wait, and no attempt, follows."""
    return delays_s[failures - 1] if failures <= len(delays_s) else float("inf")


def rebalances(evidence: Evidence) -> tuple[float, ...]:
    """When partitions were taken away, the end of the run not counted."""
    last_s = max((attempt.started_s for attempt in evidence.attempts), default=0.0)
    return tuple(
        noted.at_s
        for noted in evidence.events
        if isinstance(noted.event, (Revoked, Lost))
        and noted.event.partitions
        and noted.at_s <= last_s
    )


def by_time(attempts: Iterable[Attempt]) -> list[Attempt]:
    return sorted(attempts, key=lambda attempt: attempt.started_s)


def place(attempt: Attempt) -> str:
    """The order, its partition and its offset."""
    return f"{attempt.order_id} ({attempt.partition}@{attempt.offset})"
