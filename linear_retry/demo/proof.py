"""Proves that the consumer kept its promises: one verdict for each, from what was observed."""

import math
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace

from linear_retry.demo.evidence import (
    ANSWER_OF_STATUS,
    ANSWERED,
    SETTLED,
    Answer,
    Attempt,
    Evidence,
    Receipt,
    Verdict,
)
from linear_retry.events import CircuitOpened, Lost, ProbeFailed, Revoked
from linear_retry.scope import Partition, Place
from linear_retry.testing.event_log import AttemptFinished, AttemptStarted, Entry, EventEmitted
from linear_retry.testing.guarantees.delivery import InOrder
from linear_retry.testing.guarantees.guarantee import Guarantee, broken
from linear_retry.testing.guarantees.open_circuits import NothingWhileOpen
from linear_retry.testing.guarantees.timing import NothingEarly

_OPENS = (CircuitOpened, ProbeFailed)
_ROUNDING_S = 1e-6  # (ended + delay) - ended is not the delay to the last bit
_RANK = {AttemptFinished: 0, EventEmitted: 1, AttemptStarted: 2}


@dataclass(frozen=True, slots=True)
class _Failure:
    """An attempt that failed, and the earliest time that its order may be attempted again."""

    attempt: Attempt
    count: int
    due_s: float

    @property
    def delay_s(self) -> float:
        return self.due_s - self.attempt.ended_s


def prove(evidence: Evidence) -> tuple[Verdict, ...]:
    """All verdicts on the evidence.

    The delay after a failure is computed here, from the strategy, the failures that the HTTP client
    counted and the service's `Retry-After`. The consumer's events must agree with it: only then do
    the guarantees, which go by the events, prove that nothing was attempted too early.
    """
    failures = _failures(evidence)
    log = _log(evidence, failures)
    return (
        _went_down_twice(evidence),
        _logs_agree(evidence),
        _in_order(evidence, log),
        _none_lost(evidence),
        _each_wait_announced(evidence, failures),
        _quiet_while_open(failures, log),
        _never_early(evidence, failures, log),
        _dead_letters(evidence),
    )


def _failures(evidence: Evidence) -> list[_Failure]:
    moved = _rebalances(evidence)
    counts: Counter[tuple[int, int, int]] = Counter()
    failures: list[_Failure] = []
    for attempt in sorted(evidence.attempts, key=lambda attempt: attempt.started_s):
        if attempt.answer in SETTLED:
            continue
        # A partition that was taken away starts its strategy anew.
        rebalanced = sum(1 for at_s in moved if at_s <= attempt.started_s)
        key = (attempt.partition, attempt.offset, rebalanced)
        counts[key] += 1
        count = counts[key]
        # Infinite once the strategy has given up.
        delay_s = evidence.delays_s[count - 1] if count <= len(evidence.delays_s) else math.inf
        due_s = attempt.ended_s + max(delay_s, attempt.retry_after_s)
        failures.append(_Failure(attempt, count, due_s))
    return failures


def _rebalances(evidence: Evidence) -> tuple[float, ...]:
    """The times when partitions were taken away, without the end of the run."""
    last_s = max((attempt.started_s for attempt in evidence.attempts), default=0.0)
    return tuple(
        noted.at_s
        for noted in evidence.events
        if isinstance(noted.event, (Revoked, Lost))
        and noted.event.partitions
        and noted.at_s <= last_s
    )


def _waits(evidence: Evidence) -> list[EventEmitted]:
    return [noted for noted in evidence.events if isinstance(noted.event, _OPENS)]


def _log(evidence: Evidence, failures: Sequence[_Failure]) -> list[Entry]:
    """The attempts of the HTTP client and the consumer's events, as the guarantees read them."""
    # Each wait begins with its failure, not with the event a moment later.
    begun_s = {
        id(noted): failure.attempt.ended_s
        for failure, noted in zip(failures, _waits(evidence), strict=False)
    }
    log: list[Entry] = [
        replace(noted, at_s=begun_s.get(id(noted), noted.at_s)) for noted in evidence.events
    ]
    for attempt in evidence.attempts:
        place = Place(evidence.topic, attempt.partition, attempt.offset)
        outcome = AttemptFinished(
            attempt.ended_s, "", place, "done" if attempt.answer in SETTLED else "failed"
        )
        log += (AttemptStarted(attempt.started_s, "", place), outcome)
    return sorted(log, key=lambda entry: (entry.at_s, _RANK[type(entry)]))


def _broken(log: Sequence[Entry], guarantee: Guarantee) -> tuple[str, ...]:
    return tuple(violation.text for violation in broken(log, [guarantee]))


def _place(attempt: Attempt) -> str:
    """The order, its partition and its offset."""
    return f"{attempt.order_id} ({attempt.partition}@{attempt.offset})"


def _went_down_twice(evidence: Evidence) -> Verdict:
    answers = Counter(attempt.answer for attempt in evidence.attempts)
    wanted: dict[Answer, str] = {
        "refused": "no connection was refused",
        "unavailable": "no 503 was answered",
    }
    return Verdict(
        "the service was down twice",
        f"{answers['refused']} connections refused, {answers['unavailable']} times 503",
        tuple(
            f"{text}: nothing was put to the test"
            for answer, text in wanted.items()
            if not answers[answer]
        ),
    )


def _logs_agree(evidence: Evidence) -> Verdict:
    refused = sum(attempt.answer == "refused" for attempt in evidence.attempts)
    unmatched = list(evidence.receipts)
    violations: list[str] = []
    for attempt in evidence.attempts:
        if attempt.answer in ANSWERED:
            receipt = next((one for one in unmatched if _is_of(one, attempt)), None)
            if receipt is None:
                violations.append(f"{_place(attempt)}: {attempt.answer}, and the service knows not")
            else:
                unmatched.remove(receipt)
    # What the service had begun to answer when the connection broke is no contradiction.
    dropped = {attempt.order_id for attempt in evidence.attempts if attempt.answer == "broken"}
    violations += [
        f"{receipt.order_id}: {receipt.status} from the service, and the client knows not"
        for receipt in unmatched
        if receipt.order_id not in dropped
    ]
    return Verdict(
        "client and service saw the same",
        f"{len(evidence.receipts)} requests received, {refused} refused",
        tuple(violations),
    )


def _is_of(receipt: Receipt, attempt: Attempt) -> bool:
    return (
        (receipt.order_id, receipt.partition, receipt.offset)
        == (attempt.order_id, attempt.partition, attempt.offset)
        and ANSWER_OF_STATUS.get(receipt.status) == attempt.answer
        and attempt.started_s <= receipt.at_s <= attempt.ended_s
    )


def _in_order(evidence: Evidence, log: Sequence[Entry]) -> Verdict:
    offsets: defaultdict[Partition, list[int]] = defaultdict(list)
    for order in evidence.produced:
        offsets[evidence.topic, order.partition].append(order.offset)
    violations = _broken(log, InOrder(offsets))
    return Verdict(
        "in order, per partition",
        f"{len(offsets)} partitions, {len(evidence.attempts)} attempts, {len(violations)} too soon",
        violations,
    )


def _none_lost(evidence: Evidence) -> Verdict:
    paid = Counter(receipt.order_id for receipt in evidence.receipts if receipt.status == 200)
    dead = Counter(letter.order_id for letter in evidence.letters)
    produced = {produced.order_id for produced in evidence.produced}
    violations = [
        f"{order}: neither paid nor dead-lettered" for order in sorted(produced - {*paid, *dead})
    ]
    violations += [f"{order}: paid and dead-lettered" for order in sorted({*paid} & {*dead})]
    violations += [f"{order}: never produced" for order in sorted({*paid, *dead} - produced)]
    twice = sorted(order for order, times in (paid + dead).items() if times > 1)
    if not _rebalances(evidence):  # at least once: twice only where a partition was taken away
        violations += [f"{order}: done more than once, and no partition moved" for order in twice]
    return Verdict(
        "none lost, none skipped",
        f"{len(paid)} paid + {len(dead)} dead of {len(produced)}, {len(twice)} twice",
        tuple(violations),
    )


def _each_wait_announced(evidence: Evidence, failures: Sequence[_Failure]) -> Verdict:
    waits = _waits(evidence)
    violations = [
        f"{_place(failure.attempt)}: failure {failure.count} was announced as {noted.event}"
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


def _announces(noted: EventEmitted, failure: _Failure) -> bool:
    event, attempt = noted.event, failure.attempt
    return (
        isinstance(event, _OPENS)
        and noted.at_s >= attempt.ended_s
        and (event.partition, event.offset) == (attempt.partition, attempt.offset)
        and event.failures == failure.count
        and event.delay_s >= failure.delay_s - _ROUNDING_S
    )


def _quiet_while_open(failures: Sequence[_Failure], log: Sequence[Entry]) -> Verdict:
    violations = _broken(log, NothingWhileOpen())
    open_s = sum(failure.delay_s for failure in failures)
    return Verdict(
        "no request while the circuit is open",
        f"{len(failures)} waits, {open_s:.1f} s, {len(violations)} requests",
        violations,
    )


def _never_early(evidence: Evidence, failures: Iterable[_Failure], log: Sequence[Entry]) -> Verdict:
    late_ms = [1000 * late_s for failure in failures for late_s in _late_s(evidence, failure)]
    span = f"{min(late_ms):+.1f} to {max(late_ms):+.1f} ms" if late_ms else "none"
    return Verdict(
        "no attempt before its delay",
        f"{len(late_ms)} retries, {span} later",
        _broken(log, NothingEarly()),
    )


def _late_s(evidence: Evidence, failure: _Failure) -> Iterator[float]:
    """How long after its delay the order was attempted again, if it was."""
    failed = failure.attempt
    starts_s = (
        attempt.started_s
        for attempt in evidence.attempts
        if attempt.order_id == failed.order_id and attempt.started_s >= failed.ended_s
    )
    if (again_s := min(starts_s, default=None)) is not None:
        yield again_s - failure.due_s


def _dead_letters(evidence: Evidence) -> Verdict:
    where = {p.order_id: (p.partition, p.offset) for p in evidence.produced}
    got = Counter((letter.order_id, letter.reason) for letter in evidence.letters)
    wanted = Counter((order, "permanent") for order in evidence.rejected)
    violations = [f"no dead letter: {order}, {reason}" for order, reason in sorted(wanted - got)]
    violations += [f"not expected: {order}, {reason}" for order, reason in sorted(got - wanted)]
    violations += [
        f"{letter.order_id}: its dead letter names {letter.partition}@{letter.offset}"
        for letter in evidence.letters
        if where.get(letter.order_id) not in {None, (letter.partition, letter.offset)}
    ]
    letters = defaultdict(list)
    for letter in evidence.letters:
        letters[letter.reason].append(letter.order_id)
    return Verdict(
        "only the rejected are dead letters",
        "; ".join(f"{', '.join(sorted(ids))}: {why}" for why, ids in sorted(letters.items()))
        or "none",
        tuple(violations),
    )
