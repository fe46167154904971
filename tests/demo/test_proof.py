"""The proof finds every broken promise, and nothing where none is broken."""

from collections.abc import Callable
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from linear_retry.demo.evidence import Answer, Attempt, Evidence, Letter, Receipt
from linear_retry.demo.proof import prove
from linear_retry.events import CircuitClosed, Revoked
from linear_retry.testing.event_log import EventEmitted
from tests.demo.story import Line, Story

DOWN = "the service was down twice"
AGREE = "client and service saw the same"
ORDER = "in order, per partition"
LOSS = "none lost, none skipped"
ANNOUNCED = "each failure opens the circuit"
QUIET = "no request while the circuit is open"
EARLY = "no attempt before its delay"
LETTERS = "only the rejected are dead letters"

ANSWERS: tuple[Answer, ...] = ("paid", "refused")
FAILURES = st.lists(st.sampled_from(("refused", "unavailable", "broken")), max_size=5)


def _told(lines: list[Line]) -> Evidence:
    story = Story()
    for line in lines:
        story.tell(line)
    return story.evidence()


def _small() -> Evidence:
    """Six orders on two partitions, two outages: one of each kind."""
    return _told(
        [
            Line("a", 0),
            Line("rejected-1", 1),
            Line("b", 0, ("refused", "refused")),
            Line("c", 1),
            Line("rejected-2", 0),
            Line("d", 1, ("unavailable",)),
            Line("e", 0),
        ]
    )


def _broken(evidence: Evidence) -> set[str]:
    return {verdict.claim for verdict in prove(evidence) if not verdict.holds}


def _attempts_of(evidence: Evidence, order_id: str) -> list[Attempt]:
    return [attempt for attempt in evidence.attempts if attempt.order_id == order_id]


def _with_request(evidence: Evidence, order_id: str, at_s: float, answer: Answer) -> Evidence:
    """The same, and one more request for an order, seen by client and service alike."""
    order = next(order for order in evidence.produced if order.order_id == order_id)
    where = (order.order_id, order.partition, order.offset)
    attempt = Attempt(*where, at_s, at_s + 0.001, answer)
    receipts = evidence.receipts
    if answer == "paid":
        receipts = (*receipts, Receipt(at_s, *where, 200))
    return replace(evidence, attempts=(*evidence.attempts, attempt), receipts=receipts)


@given(st.lists(st.tuples(st.integers(0, 3), FAILURES), max_size=12))
def test_a_consumer_that_keeps_its_promises_is_believed(
    drawn: list[tuple[int, list[Answer]]],
) -> None:
    """Whatever fails, and however often: no verdict against one that waits and goes in order."""
    lines = [Line(f"order-{n}", where, tuple(how)) for n, (where, how) in enumerate(drawn)]
    ends = [Line("rejected-1", 0, ("refused",)), Line("rejected-2", 1, ("unavailable",))]
    assert set() == _broken(_told(lines + ends))


@given(
    st.lists(st.tuples(st.integers(0, 3), FAILURES), min_size=1, max_size=8),
    st.data(),
)
def test_a_request_at_any_time_of_any_wait_is_found(
    drawn: list[tuple[int, list[Answer]]], data: st.DataObject
) -> None:
    """Between a failed attempt's end and its delay's, no request goes unseen, refused or heard."""
    lines = [Line(f"order-{n}", where, tuple(how)) for n, (where, how) in enumerate(drawn)]
    ends = [Line("rejected-1", 0, ("refused",)), Line("rejected-2", 1, ("unavailable",))]
    evidence = _told(lines + ends)
    failed = data.draw(
        st.sampled_from([a for a in evidence.attempts if a.answer not in ("paid", "rejected")])
    )
    # 0.5 s is the shortest wait of the story.
    at_s = failed.ended_s + data.draw(st.floats(0, 0.498))
    order = data.draw(st.sampled_from(evidence.produced))
    answer: Answer = data.draw(st.sampled_from(ANSWERS))
    broken = _broken(_with_request(evidence, order.order_id, at_s, answer))
    assert EARLY in broken if order.order_id == failed.order_id else QUIET in broken


@given(st.data())
def test_an_order_that_left_no_trace_is_missed(data: st.DataObject) -> None:
    """Each produced order is accounted for by what the service and the dead letters say."""
    evidence = _small()
    gone = data.draw(st.sampled_from(evidence.produced)).order_id
    assert LOSS in _broken(
        replace(
            evidence,
            attempts=tuple(a for a in evidence.attempts if a.order_id != gone),
            receipts=tuple(r for r in evidence.receipts if r.order_id != gone),
            letters=tuple(x for x in evidence.letters if x.order_id != gone),
        )
    )


def _no_outage(evidence: Evidence) -> Evidence:
    return _told([Line("rejected-1", 0), Line("rejected-2", 1)])


def _unheard_receipt(evidence: Evidence) -> Evidence:
    return replace(evidence, receipts=evidence.receipts[:-1])


def _other_status(evidence: Evidence) -> Evidence:
    first, *rest = evidence.receipts
    return replace(evidence, receipts=(replace(first, status=503), *rest))


def _receipt_outside_its_request(evidence: Evidence) -> Evidence:
    *rest, last = evidence.receipts
    return replace(evidence, receipts=(*rest, replace(last, at_s=last.at_s + 1)))


def _overtaking(evidence: Evidence) -> Evidence:
    first = _attempts_of(evidence, "a")[0]
    return _with_request(evidence, "b", first.started_s - 0.01, "refused")


def _paid_and_dead(evidence: Evidence) -> Evidence:
    return replace(evidence, letters=(*evidence.letters, Letter("a", 0, 0, "permanent")))


def _never_produced(evidence: Evidence) -> Evidence:
    return replace(evidence, produced=evidence.produced[:-1])


def _twice(evidence: Evidence) -> Evidence:
    return _with_request(evidence, "a", evidence.attempts[-1].ended_s + 1, "paid")


def _unannounced(evidence: Evidence) -> Evidence:
    return replace(evidence, events=evidence.events[1:])


def _announced_before_it_failed(evidence: Evidence) -> Evidence:
    first, *rest = evidence.events
    return replace(evidence, events=(replace(first, at_s=first.at_s - 0.5), *rest))


def _waits_too_short(evidence: Evidence) -> Evidence:
    return replace(evidence, delays_s=(0.5, 1.1, 2.0))


def _retry_after_ignored(evidence: Evidence) -> Evidence:
    attempts = (
        replace(a, retry_after_s=1.5) if a.answer == "unavailable" else a for a in evidence.attempts
    )
    return replace(evidence, attempts=tuple(attempts))


def _company_of_the_probe(evidence: Evidence) -> Evidence:
    probe = _attempts_of(evidence, "b")[-1]
    return _with_request(evidence, "c", probe.ended_s, "refused")


def _beyond_its_strategy(evidence: Evidence) -> Evidence:
    return replace(evidence, delays_s=(0.5,))


def _no_letter(evidence: Evidence) -> Evidence:
    return replace(evidence, letters=evidence.letters[1:])


def _other_reason(evidence: Evidence) -> Evidence:
    first, *rest = evidence.letters
    return replace(evidence, letters=(replace(first, reason="exhausted"), *rest))


def _other_origin(evidence: Evidence) -> Evidence:
    first, *rest = evidence.letters
    return replace(evidence, letters=(replace(first, offset=77), *rest))


@pytest.mark.parametrize(
    ("spoil", "claim"),
    [
        (_no_outage, DOWN),
        (_unheard_receipt, AGREE),
        (_other_status, AGREE),
        (_receipt_outside_its_request, AGREE),
        (_overtaking, ORDER),
        (_paid_and_dead, LOSS),
        (_never_produced, LOSS),
        (_twice, LOSS),
        (_unannounced, ANNOUNCED),
        (_announced_before_it_failed, ANNOUNCED),
        (_waits_too_short, ANNOUNCED),
        (_retry_after_ignored, ANNOUNCED),
        (_company_of_the_probe, QUIET),
        (_beyond_its_strategy, ANNOUNCED),
        (_no_letter, LETTERS),
        (_other_reason, LETTERS),
        (_other_origin, LETTERS),
    ],
)
def test_each_broken_promise_has_its_verdict(
    spoil: Callable[[Evidence], Evidence], claim: str
) -> None:
    """One thing changed in a clean log, and the claim that it breaks fails."""
    assert set() == _broken(_small())
    assert claim in _broken(spoil(_small()))


def test_a_second_payment_is_allowed_where_partitions_moved() -> None:
    """At least once: what a rebalance repeats is told in the figures, and is no violation."""
    evidence = _twice(_small())
    moved = EventEmitted(evidence.attempts[-2].ended_s + 0.5, "", Revoked((("orders", 0),)))
    verdicts = prove(replace(evidence, events=(*evidence.events, moved)))
    loss = next(verdict for verdict in verdicts if verdict.claim == LOSS)
    assert loss.holds
    assert loss.figures.endswith("1 twice")


def test_a_moved_partition_begins_its_strategy_anew() -> None:
    """Failures before a partition was taken away do not count for the wait after the next one."""
    story = Story()
    story.tell(Line("a", 0, ("refused",)))
    story.note(CircuitClosed(scope=story.events[0].event.scope, outcome="dropped", open_s=1.0))  # type: ignore[union-attr]  # the first event is an opening
    story.note(Revoked((("orders", 1),)))
    story.tell(Line("rejected-1", 1, ("unavailable",)))
    story.tell(Line("rejected-2", 1))
    assert set() == _broken(story.evidence())


def test_nothing_at_all_is_no_proof() -> None:
    """An empty log holds for order and waits, and fails for want of outages and dead letters."""
    nothing = replace(_small(), produced=(), attempts=(), receipts=(), events=(), letters=())
    assert {DOWN, LETTERS} == _broken(nothing)
