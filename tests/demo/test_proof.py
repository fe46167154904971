"""The proof finds every broken promise, and nothing where none is broken."""

from bisect import bisect_left
from collections.abc import Callable
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from linear_retry.demo.evidence import Answer, Evidence, Letter, Receipt, Request
from linear_retry.demo.proof import prove
from linear_retry.scope import Place
from linear_retry.testing.event_log import AttemptFinished, AttemptStarted, EventEmitted
from tests.demo.story import Line, Story

DOWN = "the service was down twice"
AGREE = "client and service agree"
ORDER = "in order, per partition"
LOSS = "none lost, none skipped"
ANNOUNCED = "each failure opens the circuit"
QUIET = "no request while the circuit is open"
EARLY = "no attempt before its delay"
LETTERS = "only rejected orders are dead letters"

ANSWERS: tuple[Answer, ...] = ("paid", "refused")
FAILURES = st.lists(st.sampled_from(("refused", "unavailable", "broken")), max_size=5)
LINES = st.lists(st.tuples(st.integers(0, 3), FAILURES), max_size=12)


def _reported(lines: list[Line]) -> Evidence:
    story = Story()
    for line in lines:
        story.report(line)
    return story.evidence()


def _drawn(drawn: list[tuple[int, list[Answer]]]) -> Evidence:
    lines = [Line(f"order-{n}", where, tuple(how)) for n, (where, how) in enumerate(drawn)]
    ends = [Line("rejected-1", 0, ("refused",)), Line("rejected-2", 1, ("unavailable",))]
    return _reported(lines + ends)


def _small() -> Evidence:
    """Six orders on two partitions, two outages: one of each kind."""
    return _reported(
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


def _place_of(evidence: Evidence, order_id: str) -> Place:
    return next(place for place, order in evidence.orders.items() if order == order_id)


def _with_request(evidence: Evidence, order_id: str, at_s: float, answer: Answer) -> Evidence:
    """The same, and one more request for an order, seen by client and service alike."""
    place = _place_of(evidence, order_id)
    log, requests, receipts = [*evidence.log], [*evidence.requests], [*evidence.receipts]
    at = bisect_left([entry.at_s for entry in log], at_s)
    before = sum(isinstance(entry, AttemptStarted) for entry in log[:at])
    outcome = AttemptFinished(at_s, "", place, "done" if answer == "paid" else "failed")
    log[at:at] = [AttemptStarted(at_s, "", place), outcome]
    requests.insert(before, Request(order_id, answer))
    if answer == "paid":
        receipts.append(Receipt(at_s, order_id, 200))
    return replace(evidence, log=log, requests=requests, receipts=receipts)


@given(LINES)
def test_a_consumer_that_keeps_its_promises_is_believed(
    drawn: list[tuple[int, list[Answer]]],
) -> None:
    """Whatever fails, and however often: no verdict against one that waits and goes in order."""
    assert set() == _broken(_drawn(drawn))


@given(LINES, st.data())
def test_a_request_at_any_time_of_any_wait_is_found(
    drawn: list[tuple[int, list[Answer]]], data: st.DataObject
) -> None:
    """While a circuit is open, no request goes unseen, refused or heard."""
    evidence = _drawn(drawn)
    waits = [entry for entry in evidence.log if isinstance(entry, EventEmitted)]
    opened = data.draw(st.sampled_from([each for each in waits if hasattr(each.event, "delay_s")]))
    # 0.5 s is the shortest wait of the story.
    at_s = opened.at_s + data.draw(st.floats(0.001, 0.4))
    order = data.draw(st.sampled_from([*evidence.orders.values()]))
    broken = _broken(_with_request(evidence, order, at_s, data.draw(st.sampled_from(ANSWERS))))
    is_held = _place_of(evidence, order) == opened.event.place  # type: ignore[union-attr]  # chosen so
    assert EARLY in broken if is_held else QUIET in broken


@given(st.data())
def test_an_order_that_left_no_trace_is_missed(data: st.DataObject) -> None:
    """Each produced order is accounted for by what the service and the dead letters say."""
    evidence = _small()
    gone = data.draw(st.sampled_from([*evidence.orders.values()]))
    assert LOSS in _broken(
        replace(
            evidence,
            receipts=[each for each in evidence.receipts if each.order_id != gone],
            letters=[each for each in evidence.letters if each.order_id != gone],
        )
    )


def _no_outage(evidence: Evidence) -> Evidence:
    return _reported([Line("rejected-1", 0), Line("rejected-2", 1)])


def _unheard_receipt(evidence: Evidence) -> Evidence:
    return replace(evidence, receipts=evidence.receipts[:-1])


def _other_status(evidence: Evidence) -> Evidence:
    first, *rest = evidence.receipts
    return replace(evidence, receipts=(replace(first, status=503), *rest))


def _receipt_outside_its_request(evidence: Evidence) -> Evidence:
    *rest, last = evidence.receipts
    return replace(evidence, receipts=(*rest, replace(last, at_s=last.at_s + 1)))


def _overtaking(evidence: Evidence) -> Evidence:
    return _with_request(evidence, "b", evidence.log[0].at_s - 0.01, "refused")


def _paid_and_dead(evidence: Evidence) -> Evidence:
    return replace(evidence, letters=(*evidence.letters, Letter("a", 0, 0, "permanent")))


def _never_produced(evidence: Evidence) -> Evidence:
    kept = {place: order for place, order in evidence.orders.items() if order != "e"}
    return replace(evidence, orders=kept)


def _twice(evidence: Evidence) -> Evidence:
    return _with_request(evidence, "a", evidence.log[-1].at_s + 1, "paid")


def _unannounced(evidence: Evidence) -> Evidence:
    events = [entry for entry in evidence.log if isinstance(entry, EventEmitted)]
    return replace(evidence, log=[entry for entry in evidence.log if entry is not events[0]])


def _waits_too_short(evidence: Evidence) -> Evidence:
    return replace(evidence, delays_s=(0.5, 1.1, 2.0))


def _retry_after_ignored(evidence: Evidence) -> Evidence:
    requests = (
        replace(each, retry_after_s=1.5) if each.answer == "unavailable" else each
        for each in evidence.requests
    )
    return replace(evidence, requests=tuple(requests))


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
        (_waits_too_short, ANNOUNCED),
        (_retry_after_ignored, ANNOUNCED),
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


def test_nothing_at_all_is_no_proof() -> None:
    """An empty log holds for order and waits, and fails for want of outages."""
    assert {DOWN} == _broken(Story().evidence())
