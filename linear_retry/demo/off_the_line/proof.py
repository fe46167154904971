"""Proves that what left the line kept its promises: one verdict for each, from the evidence."""

from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise

from linear_retry.consumer.dead_letters.retry_topics import RetryTopics
from linear_retry.consumer.dead_letters.scheduler import Scheduler
from linear_retry.demo.evidence import Receipt, Verdict, offsets_of
from linear_retry.demo.off_the_line.journeys import journeys
from linear_retry.demo.off_the_line.story import NEVER_PAID
from linear_retry.demo.payments import REJECTED
from linear_retry.demo.proof import each_once
from linear_retry.records.dead_letter import DeadLetter
from linear_retry.scope import Place
from linear_retry.testing.event_log import AttemptStarted, Entry
from linear_retry.testing.guarantees.delivery import InOrder
from linear_retry.testing.guarantees.guarantee import Guarantee, broken
from linear_retry.testing.guarantees.liveness import LiveLineNeverWaits
from linear_retry.testing.guarantees.retries import InOnePlace, RetriedWhenDue, WithinSequence

_NEVER_WAITS_S = 5.0
"""More than a busy machine needs from one order to the next, and less than most delays."""


@dataclass(frozen=True, slots=True)
class Evidence:
    """What the consumers, the service and the dead-letter topic say."""

    orders: Mapping[Place, str]
    log: Sequence[Entry]
    receipts: Sequence[Receipt]
    letters: Sequence[DeadLetter]
    retries: RetryTopics | Scheduler


def prove(evidence: Evidence) -> tuple[Verdict, ...]:
    """All verdicts on the evidence. The waits are also proved by what the service saw alone."""
    dead = [order_of(letter) for letter in evidence.letters]
    return (
        _left_and_came_back(evidence),
        each_once("each paid or dead-lettered once", evidence.orders, evidence.receipts, dead),
        _line_went_on(evidence),
        _never_early(evidence),
        _dead_letters(evidence),
        _one_identity(evidence),
    )


def order_of(letter: DeadLetter) -> str:
    """The order's id, which is the value of its message."""
    return (letter.value or b"").decode()


def _broken(evidence: Evidence, *guarantees: Guarantee) -> tuple[str, ...]:
    return tuple(violation.text for violation in broken(evidence.log, guarantees))


def _broken_by_topics(
    evidence: Evidence, *guarantees: Callable[[RetryTopics], Guarantee]
) -> tuple[str, ...]:
    """What retry topics promise beside; a scheduler's record has left its topic at once."""
    retries = evidence.retries
    if isinstance(retries, Scheduler):
        return ()
    return _broken(evidence, *(each(retries) for each in guarantees))


def _attempts(evidence: Evidence) -> list[AttemptStarted]:
    return [entry for entry in evidence.log if isinstance(entry, AttemptStarted)]


def _left_and_came_back(evidence: Evidence) -> Verdict:
    ended = journeys(evidence.log, evidence.orders, evidence.retries.strategy.delays_ms).ended
    paid = [each for each in ended if each.is_paid]
    most = max((each.overtaken_by for each in paid), default=0)
    return Verdict(
        "orders left the line and came back",
        f"{len(ended)} left, {len(paid)} paid later, overtaken by up to {most}",
        () if paid else ("no order was paid by a retry",),
    )


def _line_went_on(evidence: Evidence) -> Verdict:
    began = [each.at_s for each in _attempts(evidence) if each.place in evidence.orders]
    longest_s = max((b - a for a, b in pairwise(began)), default=0.0)
    in_order = InOrder(offsets_of(evidence.orders))
    return Verdict(
        "the line never waited for a retry",
        f"in order, at most {longest_s:.2f} s from one order to the next",
        (
            *_broken(evidence, in_order),
            *_broken_by_topics(evidence, lambda topics: LiveLineNeverWaits(topics, _NEVER_WAITS_S)),
        ),
    )


def _never_early(evidence: Evidence) -> Verdict:
    delays_s = [delay_ms / 1000 for delay_ms in evidence.retries.strategy.delays_ms]
    received: defaultdict[str, list[float]] = defaultdict(list)
    for receipt in evidence.receipts:
        received[receipt.order_id].append(receipt.at_s)
    late = {
        (order, number): retried_s - failed_s - delay_s
        for order, at_s in received.items()
        for number, ((failed_s, retried_s), delay_s) in enumerate(
            zip(pairwise(at_s), delays_s, strict=False), 1
        )
    }
    span = f"{min(late.values()):.2f} to {max(late.values()):.2f} s" if late else "none"
    return Verdict(
        "no retry before its delay",
        f"{len(late)} retries, {span} later",
        (
            *_broken_by_topics(evidence, RetriedWhenDue),
            *(
                f"{order}: retry {number} was {-late_s:.3f} s early"
                for (order, number), late_s in late.items()
                if late_s < 0
            ),
        ),
    )


def _dead_letters(evidence: Evidence) -> Verdict:
    length = len(evidence.retries.strategy)
    wanted = dict.fromkeys(NEVER_PAID, ("exhausted", length, length + 1))
    wanted |= dict.fromkeys(REJECTED, ("permanent", 0, 1))
    got = {
        order_of(letter): (letter.reason, letter.step or 0, letter.failures)
        for letter in evidence.letters
    }
    exhausted = sum(reason == "exhausted" for reason, _, _ in got.values())
    return Verdict(
        f"a dead letter after {length} retries, in steps",
        f"{exhausted} exhausted, {len(got) - exhausted} rejected by the service",
        (
            *_broken_by_topics(evidence, WithinSequence),
            *(
                f"{order}: expected {wanted.get(order)}, got {got.get(order)}"
                for order in sorted({*wanted, *got})
                if wanted.get(order) != got.get(order)
            ),
        ),
    )


def _one_identity(evidence: Evidence) -> Verdict:
    places = {order: place for place, order in evidence.orders.items()}
    violations = [
        f"{letter.retry_id}: its letter names {origin}"
        for letter in evidence.letters
        if (origin := (letter.destination, letter.original_partition, letter.original_offset))
        != places.get(order_of(letter))
    ]
    ids = {each.hop.retry_id for each in _attempts(evidence) if each.hop is not None}
    return Verdict(
        "one id and one place at a time",
        f"{len(ids)} ids off the line, {len(evidence.letters)} original places in letters",
        (*_broken(evidence, InOnePlace()), *violations),
    )
