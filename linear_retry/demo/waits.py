"""Checks that each failure opens the circuit, and that nothing is attempted while it is open."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

from linear_retry.demo.evidence import SETTLED, Attempt, Evidence, TimedEvent, Verdict
from linear_retry.events import CircuitClosed, CircuitOpened, Lost, ProbeFailed, Revoked

_OPENS = (CircuitOpened, ProbeFailed)
_ENDS_SPAN = (*_OPENS, CircuitClosed)
_ROUNDING_S = 1e-6  # (ended + delay) - ended is not the delay to the last bit


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
        # A partition that was taken away starts its strategy anew.
        rebalanced = sum(1 for at_s in moved if at_s <= attempt.started_s)
        key = (attempt.partition, attempt.offset, rebalanced)
        counts[key] += 1
        delay_s = _delay_s(evidence.delays_s, counts[key])
        due_s = attempt.ended_s + max(delay_s, attempt.retry_after_s)
        failures.append(Failure(attempt, counts[key], due_s))
    return tuple(failures)


def _delay_s(delays_s: Sequence[float], failures: int) -> float:
    """The delay after so many failures; infinite once the strategy has given up."""
    return delays_s[failures - 1] if failures <= len(delays_s) else float("inf")


def rebalances(evidence: Evidence) -> tuple[float, ...]:
    """The times when partitions were taken away, without the end of the run."""
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


def each_wait_announced(evidence: Evidence, failures: Sequence[Failure]) -> Verdict:
    waits = [noted for noted in evidence.events if isinstance(noted.event, _OPENS)]
    violations = [
        f"{place(failure.attempt)}: failure {failure.count} was announced as {noted.event}"
        for failure, noted in zip(failures, waits, strict=False)
        if not _announces(noted, failure)
    ]
    if len(waits) != len(failures):
        violations.append(f"{len(failures)} failures, and {len(waits)} waits announced")
    return Verdict(
        "each failure opens the circuit",
        f"{len(failures)} failures, {len(waits)} waits announced",
        tuple(violations),
    )


def _announces(noted: TimedEvent, failure: Failure) -> bool:
    event, attempt = noted.event, failure.attempt
    return (
        isinstance(event, _OPENS)
        and noted.at_s >= attempt.ended_s
        and (event.partition, event.offset) == (attempt.partition, attempt.offset)
        and event.failures == failure.count
        and event.delay_s >= failure.due_s - attempt.ended_s - _ROUNDING_S
    )


def quiet_while_open(evidence: Evidence, failures: Sequence[Failure]) -> Verdict:
    violations: list[str] = []
    open_s = 0.0
    for failure in failures:
        open_s += failure.due_s - failure.attempt.ended_s
        violations += _too_early(evidence, failure)
        violations += _beside_the_probe(evidence, failure)
    return Verdict(
        "no request while the circuit is open",
        f"{len(failures)} waits, {open_s:.1f} s, {len(violations)} requests",
        tuple(violations),
    )


def _too_early(evidence: Evidence, failure: Failure) -> Iterator[str]:
    """Requests between the end of the failed attempt and the end of its delay."""
    since_s = failure.attempt.ended_s
    for attempt in evidence.attempts:
        if since_s <= attempt.started_s < failure.due_s:
            yield (
                f"{attempt.order_id}: attempted {attempt.started_s - since_s:.3f} s after "
                f"{place(failure.attempt)} failed, {failure.due_s - attempt.started_s:.3f} s early"
            )
    for receipt in evidence.receipts:
        if since_s < receipt.at_s < failure.due_s:
            yield f"{receipt.order_id}: received while the circuit was open"


def _beside_the_probe(evidence: Evidence, failure: Failure) -> Iterator[str]:
    """Attempts of other orders before the circuit closes or the next failure."""
    if rebalances(evidence):
        return  # the held order may have gone to another member, and its neighbour is the probe
    since_s = failure.attempt.ended_s
    ends = [n.at_s for n in evidence.events if n.at_s > since_s and isinstance(n.event, _ENDS_SPAN)]
    # The first is the one that this failure itself brought about.
    until_s = ends[1] if len(ends) > 1 else float("inf")
    for attempt in evidence.attempts:
        held = (failure.attempt.partition, failure.attempt.offset)
        if (
            failure.due_s <= attempt.started_s < until_s
            and (attempt.partition, attempt.offset) != held
        ):
            yield f"{attempt.order_id}: attempted while {place(failure.attempt)} was the probe"


def never_early(evidence: Evidence, failures: Sequence[Failure]) -> Verdict:
    late_s: list[float] = []
    violations: list[str] = []
    for failure in failures:
        again = _next_of_same(evidence.attempts, failure.attempt)
        if again is None:
            violations.append(f"{place(failure.attempt)}: never attempted again")
            continue
        late_s.append(again.started_s - failure.due_s)
        if again.started_s < failure.due_s:
            violations.append(
                f"{place(failure.attempt)}: attempted again after failure {failure.count}, "
                f"{failure.due_s - again.started_s:.3f} s before its delay was over"
            )
    span = f"{min(late_s) * 1000:+.1f} to {max(late_s) * 1000:+.1f} ms" if late_s else "none"
    return Verdict(
        "no attempt before its delay", f"{len(late_s)} retries, {span} later", tuple(violations)
    )


def _next_of_same(attempts: Iterable[Attempt], failed: Attempt) -> Attempt | None:
    return min(
        (
            attempt
            for attempt in attempts
            if (attempt.partition, attempt.offset) == (failed.partition, failed.offset)
            and attempt.started_s >= failed.ended_s
        ),
        key=lambda attempt: attempt.started_s,
        default=None,
    )
