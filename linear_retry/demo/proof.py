"""Proves that the consumer kept its guarantees: one verdict for each, from the evidence."""

import math
from collections import Counter, defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from linear_retry.demo.evidence import (
    ANSWER_OF_STATUS,
    Evidence,
    Letter,
    Receipt,
    Request,
    Verdict,
    offsets_of,
)
from linear_retry.events import CircuitOpened, ProbeFailed
from linear_retry.scope import Place
from linear_retry.testing.event_log import AttemptFinished, AttemptStarted, EventEmitted
from linear_retry.testing.guarantees.delivery import InOrder
from linear_retry.testing.guarantees.guarantee import Guarantee, broken
from linear_retry.testing.guarantees.open_circuits import NothingEarly, NothingWhileOpen

_ANSWERED = frozenset(ANSWER_OF_STATUS.values())
_SETTLED = ("paid", "rejected")


@dataclass(frozen=True, slots=True)
class _Attempt:
    """One attempt, its request, and the delay that has to follow if it failed."""

    place: Place
    started_s: float
    ended_s: float
    request: Request
    failures: int
    delay_s: float

    def __str__(self) -> str:
        return f"{self.request.order_id} ({self.place.partition}@{self.place.offset})"


def prove(evidence: Evidence) -> tuple[Verdict, ...]:
    """All verdicts on the evidence.

    The delay after a failure is computed here, from the strategy, the failures that the HTTP client
    counted and the service's `Retry-After`. The consumer's events must agree with it: only then do
    the guarantees, which go by the events, prove that nothing was attempted too early.
    """
    attempts = tuple(_attempts(evidence))
    failures = [attempt for attempt in attempts if attempt.failures]
    return (
        _went_down_twice(evidence),
        _logs_agree(evidence, attempts),
        _in_order(evidence),
        _none_lost(evidence),
        _each_wait_announced(evidence, failures),
        _quiet_while_open(evidence, failures),
        _never_early(evidence, attempts),
        _dead_letters(evidence),
    )


def _attempts(evidence: Evidence) -> Iterator[_Attempt]:
    started = [entry for entry in evidence.log if isinstance(entry, AttemptStarted)]
    finished = [entry for entry in evidence.log if isinstance(entry, AttemptFinished)]
    delays_s = dict(enumerate(evidence.delays_s, 1))
    failures: Counter[Place] = Counter()
    for first, last, request in zip(started, finished, evidence.requests, strict=True):
        count, delay_s = 0, 0.0
        if request.answer not in _SETTLED:
            failures[first.place] += 1
            count = failures[first.place]
            # Infinite once the strategy has given up.
            delay_s = max(delays_s.get(count, math.inf), request.retry_after_s)
        yield _Attempt(first.place, first.at_s, last.at_s, request, count, delay_s)


def _broken(evidence: Evidence, guarantee: Guarantee) -> tuple[str, ...]:
    return tuple(violation.text for violation in broken(evidence.log, [guarantee]))


def _went_down_twice(evidence: Evidence) -> Verdict:
    answers = Counter(request.answer for request in evidence.requests)
    refused, unavailable = answers["refused"], answers["unavailable"]
    return Verdict(
        "the service was down twice",
        f"{refused} connections refused, {unavailable} responses 503",
        () if refused and unavailable else ("one of the two outages was not seen",),
    )


def _logs_agree(evidence: Evidence, attempts: Sequence[_Attempt]) -> Verdict:
    unmatched = list(evidence.receipts)
    violations: list[str] = []
    for attempt in attempts:
        receipt = next((one for one in unmatched if _is_of(one, attempt)), None)
        if receipt is not None:
            unmatched.remove(receipt)
        elif attempt.request.answer in _ANSWERED:
            violations.append(
                f"{attempt}: {attempt.request.answer}, but the service has no such request"
            )
    violations += [
        f"{receipt.order_id}: {receipt.status} from the service, but the client has no such answer"
        for receipt in unmatched
    ]
    refused = sum(attempt.request.answer == "refused" for attempt in attempts)
    return Verdict(
        "client and service agree",
        f"{len(evidence.receipts)} requests received, {refused} refused",
        tuple(violations),
    )


def _is_of(receipt: Receipt, attempt: _Attempt) -> bool:
    return (
        receipt.order_id == attempt.request.order_id
        # An answer that was cut off by the broken connection is not a contradiction.
        and attempt.request.answer in ("broken", ANSWER_OF_STATUS.get(receipt.status))
        and attempt.started_s <= receipt.at_s <= attempt.ended_s
    )


def _in_order(evidence: Evidence) -> Verdict:
    offsets = offsets_of(evidence.orders)
    violations = _broken(evidence, InOrder(offsets))
    return Verdict(
        "in order, per partition",
        f"{len(offsets)} partitions, {len(evidence.requests)} attempts, "
        f"{len(violations)} out of order",
        violations,
    )


def _none_lost(evidence: Evidence) -> Verdict:
    paid = Counter(receipt.order_id for receipt in evidence.receipts if receipt.status == 200)
    dead = Counter(letter.order_id for letter in evidence.letters)
    produced = {*evidence.orders.values()}
    return Verdict(
        "none lost, none skipped",
        f"{len(paid)} paid + {len(dead)} dead of {len(produced)}",
        tuple(
            f"{order}: paid {paid[order]} times, dead-lettered {dead[order]} times"
            for order in sorted(produced | {*paid} | {*dead})
            if paid[order] + dead[order] != (order in produced)
        ),
    )


def _each_wait_announced(evidence: Evidence, failures: Sequence[_Attempt]) -> Verdict:
    events = [entry.event for entry in evidence.log if isinstance(entry, EventEmitted)]
    waits = [event for event in events if isinstance(event, CircuitOpened | ProbeFailed)]
    violations = [
        f"{attempt}: failure {attempt.failures} was announced as {event}"
        for attempt, event in zip(failures, waits, strict=False)
        if (event.place, event.failures) != (attempt.place, attempt.failures)
        or event.delay_s < attempt.delay_s
    ]
    if len(waits) != len(failures):
        violations.append(f"{len(failures)} failures, and {len(waits)} waits announced")
    return Verdict(
        "each failure opens the circuit",
        f"{len(failures)} failures, {len(waits)} waits announced",
        tuple(violations),
    )


def _quiet_while_open(evidence: Evidence, failures: Sequence[_Attempt]) -> Verdict:
    violations = _broken(evidence, NothingWhileOpen())
    open_s = sum(attempt.delay_s for attempt in failures)
    return Verdict(
        "no request while the circuit is open",
        f"{len(failures)} waits, {open_s:.1f} s, {len(violations)} requests",
        violations,
    )


def _never_early(evidence: Evidence, attempts: Sequence[_Attempt]) -> Verdict:
    due_s: dict[Place, float] = {}
    late_ms: list[float] = []
    for attempt in attempts:
        if attempt.place in due_s:
            late_ms.append(1000 * (attempt.started_s - due_s.pop(attempt.place)))
        if attempt.failures:
            due_s[attempt.place] = attempt.ended_s + attempt.delay_s
    span = f"{min(late_ms):+.1f} to {max(late_ms):+.1f} ms" if late_ms else "none"
    return Verdict(
        "no attempt before its delay",
        f"{len(late_ms)} retries, {span} later",
        _broken(evidence, NothingEarly()),
    )


def _dead_letters(evidence: Evidence) -> Verdict:
    wanted = Counter(
        Letter(order, place.partition, place.offset, "permanent")
        for place, order in evidence.orders.items()
        if order in evidence.rejected
    )
    got = Counter(evidence.letters)
    by_reason: defaultdict[str, list[str]] = defaultdict(list)
    for letter in evidence.letters:
        by_reason[letter.reason].append(letter.order_id)
    return Verdict(
        "only rejected orders are dead letters",
        "; ".join(f"{', '.join(sorted(ids))}: {why}" for why, ids in sorted(by_reason.items()))
        or "none",
        (
            *(f"no dead letter: {letter}" for letter in wanted - got),
            *(f"not expected: {letter}" for letter in got - wanted),
        ),
    )
