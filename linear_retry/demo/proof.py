"""Proves that the consumer kept its promises: one verdict for each, from what was observed."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

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
from linear_retry.demo.waits import (
    by_time,
    each_wait_announced,
    failures_of,
    never_early,
    place,
    quiet_while_open,
    rebalances,
)


def prove(evidence: Evidence) -> tuple[Verdict, ...]:
    """All verdicts on the evidence.

    The delay after a failure is computed here, from the strategy, the failures that the HTTP client
    counted and the service's `Retry-After`: the consumer's own events are not trusted.
    """
    failures = failures_of(evidence)
    return (
        _went_down_twice(evidence),
        _logs_agree(evidence),
        _in_order(evidence),
        _none_lost(evidence),
        each_wait_announced(evidence, failures),
        quiet_while_open(evidence, failures),
        never_early(evidence, failures),
        _dead_letters(evidence),
    )


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
                violations.append(f"{place(attempt)}: {attempt.answer}, and the service knows not")
            else:
                unmatched.remove(receipt)
    # What the service had begun to answer when the connection broke is no contradiction.
    broken = {attempt.order_id for attempt in evidence.attempts if attempt.answer == "broken"}
    violations += [
        f"{receipt.order_id}: {receipt.status} from the service, and the client knows not"
        for receipt in unmatched
        if receipt.order_id not in broken
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


def _in_order(evidence: Evidence) -> Verdict:
    partitions = sorted({produced.partition for produced in evidence.produced})
    violations = [text for number in partitions for text in _disorder(evidence, number)]
    return Verdict(
        "in order, per partition",
        f"{len(partitions)} partitions, {len(evidence.attempts)} attempts, "
        f"{len(violations)} too soon",
        tuple(violations),
    )


def _disorder(evidence: Evidence, partition: int) -> Iterator[str]:
    waiting = sorted(p.offset for p in evidence.produced if p.partition == partition)
    done: set[int] = set()
    ours = [attempt for attempt in evidence.attempts if attempt.partition == partition]
    for attempt in by_time(ours):
        while waiting and waiting[0] in done:
            waiting.pop(0)
        if waiting and attempt.offset > waiting[0]:
            yield (f"{place(attempt)}: attempted before {partition}@{waiting[0]} was done")
        if attempt.answer in SETTLED:
            done.add(attempt.offset)


def _none_lost(evidence: Evidence) -> Verdict:
    paid = Counter(receipt.order_id for receipt in evidence.receipts if receipt.status == 200)
    dead = Counter(letter.order_id for letter in evidence.letters)
    produced = {produced.order_id for produced in evidence.produced}
    moved = rebalances(evidence)
    violations = [
        f"{order}: neither paid nor dead-lettered" for order in sorted(produced - {*paid, *dead})
    ]
    violations += [f"{order}: paid and dead-lettered" for order in sorted({*paid} & {*dead})]
    violations += [f"{order}: never produced" for order in sorted({*paid, *dead} - produced)]
    twice = sorted(order for order, times in (paid + dead).items() if times > 1)
    if not moved:  # at least once: a second time needs a partition that was taken away
        violations += [f"{order}: done more than once, and no partition moved" for order in twice]
    return Verdict(
        "none lost, none skipped",
        f"{len(paid)} paid + {len(dead)} dead of {len(produced)}, {len(twice)} twice",
        tuple(violations),
    )


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
    return Verdict(
        "only the rejected are dead letters",
        _letters_by_reason(evidence) or "none",
        tuple(violations),
    )


def _letters_by_reason(evidence: Evidence) -> str:
    reasons = sorted({letter.reason for letter in evidence.letters})
    return "; ".join(
        ", ".join(sorted(one.order_id for one in evidence.letters if one.reason == reason))
        + f": {reason}"
        for reason in reasons
    )
