"""The proof of retry topics finds every broken promise, and nothing where none is broken."""

from collections.abc import Callable
from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from linear_retry.demo.off_the_line.journeys import journeys
from linear_retry.demo.off_the_line.proof import Evidence, prove
from linear_retry.demo.off_the_line.story import DELAYS_MS, NEVER_PAID
from linear_retry.demo.payments import REJECTED
from linear_retry.events import SentToRetry
from linear_retry.testing.event_log import AttemptFinished, AttemptStarted, EventEmitted
from tests.demo.retry_story import FOREVER, RetryStory

BACK = "orders left the line and came back"
ONCE = "each paid or dead-lettered once"
LINE = "the line never waited for a retry"
EARLY = "no retry before its delay"
LETTERS = "a dead letter after 6 retries, in steps"
IDENTITY = "one id and one place at a time"

ENDS = dict.fromkeys(sorted(NEVER_PAID), FOREVER) | dict.fromkeys(sorted(REJECTED), 0)
FAILURES = st.lists(st.integers(0, FOREVER - 1), max_size=12)


def _small() -> Evidence:
    return RetryStory().tell({"a": 0, "b": 2, "c": 0, "d": 1, "e": 6} | ENDS)


def _broken(evidence: Evidence) -> set[str]:
    return {verdict.claim for verdict in prove(evidence) if not verdict.holds}


@given(FAILURES)
@settings(max_examples=30)
def test_lines_that_keep_their_promises_are_believed(drawn: list[int]) -> None:
    """However often orders fail: no verdict against lines that wait, step and go in order."""
    orders = {f"order {number}": times for number, times in enumerate(drawn)}
    assert set() == _broken(RetryStory().tell({"back": 1} | orders | ENDS))


def test_journeys_say_who_waits_and_in_which_order_the_others_came_back() -> None:
    """The first to leave is not the first to come back; others overtake it on the line."""
    evidence = _small()
    found = journeys(evidence.log, evidence.orders, DELAYS_MS)
    ended = [(each.order_id, each.step, each.is_paid, each.overtaken_by) for each in found.ended]
    assert [("d", 1, True, 0), ("b", 2, True, 1)] == ended[:2]
    assert {"e", *NEVER_PAID} == {order_id for order_id, *_ in ended[2:]}
    assert "b  paid by retry #2, overtaken by 1" == str(found.ended[1])
    assert "dead letter after retry #6" in str(found.ended[-1])
    half = journeys(evidence.log[: len(evidence.log) // 2], evidence.orders, DELAYS_MS)
    assert half.waiting
    assert not found.waiting


def _none_came_back(evidence: Evidence) -> Evidence:
    return RetryStory().tell({"a": 0} | ENDS)


def _paid_twice(evidence: Evidence) -> Evidence:
    return replace(evidence, receipts=[*evidence.receipts, evidence.receipts[0]])


def _lost(evidence: Evidence) -> Evidence:
    return replace(evidence, letters=evidence.letters[1:])


def _out_of_order(evidence: Evidence) -> Evidence:
    first = next(each for each in evidence.log if isinstance(each, AttemptStarted))
    begun = replace(first, at_s=evidence.log[-1].at_s + 1)
    ended = AttemptFinished(begun.at_s, "live", begun.place, "done")
    skipped = [each for each in evidence.log if getattr(each, "place", None) != first.place]
    return replace(evidence, log=[*skipped, begun, ended])


def _stalled(evidence: Evidence) -> Evidence:
    late = [
        replace(each, at_s=each.at_s + 10) if each.at_s > 100.25 else each for each in evidence.log
    ]
    return replace(evidence, log=late)


def _early_for_the_service(evidence: Evidence) -> Evidence:
    *rest, last = evidence.receipts
    return replace(evidence, receipts=[*rest, replace(last, at_s=last.at_s - 0.2)])


def _early_by_the_broker(evidence: Evidence) -> Evidence:
    log = [
        replace(each, hop=replace(each.hop, waited_s=0.9))
        if isinstance(each, AttemptStarted) and each.hop is not None
        else each
        for each in evidence.log
    ]
    return replace(evidence, log=log)


def _step_left_out(evidence: Evidence) -> Evidence:
    log = [
        replace(each, event=replace(each.event, step=each.event.step + 1))
        if isinstance(each, EventEmitted) and isinstance(each.event, SentToRetry)
        else each
        for each in evidence.log
    ]
    return replace(evidence, log=log)


def _too_few_retries(evidence: Evidence) -> Evidence:
    first, *rest = evidence.letters
    return replace(evidence, letters=[replace(first, step=5), *rest])


def _other_origin(evidence: Evidence) -> Evidence:
    first, *rest = evidence.letters
    return replace(evidence, letters=[replace(first, original_offset=77), *rest])


def _in_two_places(evidence: Evidence) -> Evidence:
    again = next(each for each in evidence.log if isinstance(each, AttemptStarted) and each.hop)
    place = again.place._replace(offset=999)
    late = replace(again, at_s=evidence.log[-1].at_s + 1, place=place)
    return replace(evidence, log=[*evidence.log, late])


@pytest.mark.parametrize(
    ("spoil", "claim"),
    [
        (_none_came_back, BACK),
        (_paid_twice, ONCE),
        (_lost, ONCE),
        (_out_of_order, LINE),
        (_stalled, LINE),
        (_early_for_the_service, EARLY),
        (_early_by_the_broker, EARLY),
        (_step_left_out, LETTERS),
        (_too_few_retries, LETTERS),
        (_lost, LETTERS),
        (_other_origin, IDENTITY),
        (_in_two_places, IDENTITY),
    ],
)
def test_each_broken_promise_has_its_verdict(
    spoil: Callable[[Evidence], Evidence], claim: str
) -> None:
    """One thing changed in clean evidence, and the claim that it breaks fails."""
    assert set() == _broken(_small())
    assert claim in _broken(spoil(_small()))
