"""A filter matches what its criteria say."""

from dataclasses import fields, replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from linear_retry.dlq.letters.filters import EVERYTHING, Filter
from linear_retry.dlq.letters.letter import Letter, State, read_letter
from linear_retry.records.text import ErrorText
from tests.dlq.sample_letters import RECORDS, our_letter, our_records

_LETTER = our_letter(7, error=ErrorText("billing.CardRefused", "card 4242 REFUSED", None))
_AT_MS = _LETTER.timestamp_ms

_MEANT = [
    Filter(reasons=("exhausted",)),
    Filter(reasons=("permanent", "exhausted")),
    Filter(exceptions=("cardrefused",)),
    Filter(exceptions=("nothing", "4242 refused")),
    Filter(origins=(("orders", None),)),
    Filter(origins=(("orders", 3), ("payments", None))),
    Filter(keys=(b"ann",)),
    Filter(keys=(None, b"ann")),
    Filter(not_exceptions=("timeout",), not_origins=(("orders", 2), ("order", None))),
    Filter(since_ms=_AT_MS, until_ms=_AT_MS + 1),
    Filter(ids=(_LETTER.id,)),
    Filter(ids=(_LETTER.resolution_key,)),
    Filter(chosen=frozenset({_LETTER.resolution_key})),
    Filter(headers=(("tenant", b"acme"), ("retry-counter", b"2"))),
    Filter(states=(State.RESOLVED, State.OPEN)),
]
_OTHERS = [
    Filter(reasons=("permanent",)),
    Filter(exceptions=("timeout",)),
    Filter(origins=(("orders", 2), ("order", None))),
    Filter(keys=(b"an",)),
    Filter(keys=(None,)),
    Filter(not_exceptions=("timeout", "cardrefused")),
    Filter(not_origins=(("orders", None),)),
    Filter(not_origins=(("orders", 3),)),
    Filter(since_ms=_AT_MS + 1),
    Filter(until_ms=_AT_MS),
    Filter(ids=(f"{_LETTER.id}#2", "billing")),
    Filter(chosen=frozenset({_LETTER.id})),
    Filter(chosen=frozenset()),  # chosen from, and nothing found: not everything
    Filter(headers=(("tenant", b"acme"), ("tenant", b"other"))),
    Filter(states=(State.RESOLVED, State.REPLAYED)),
]


@pytest.mark.parametrize("letter_filter", _MEANT)
def test_a_criterion_that_holds(letter_filter: Filter) -> None:
    """Of several values of one criterion any may hold; of headers all must."""
    assert letter_filter.matches(_LETTER, State.OPEN)


@pytest.mark.parametrize("letter_filter", _OTHERS)
def test_a_criterion_that_does_not_hold(letter_filter: Filter) -> None:
    """One that does not hold is enough, whatever else does."""
    assert not letter_filter.matches(_LETTER, State.OPEN)


@given(st.lists(st.sampled_from(_MEANT + _OTHERS), max_size=4))
def test_criteria_are_combined_with_and(filters: list[Filter]) -> None:
    """What several filters say at once is what all of them say one by one."""
    combined, parts = EVERYTHING, []
    for each in filters:
        changed = {
            field.name: getattr(each, field.name)
            for field in fields(Filter)
            if getattr(each, field.name) != getattr(EVERYTHING, field.name)
        }
        if not any(getattr(combined, name) != getattr(EVERYTHING, name) for name in changed):
            combined = replace(combined, **changed)
            parts.append(each)
    expected = all(each.matches(_LETTER, State.OPEN) for each in parts)
    assert expected == combined.matches(_LETTER, State.OPEN)


@given((our_records() | RECORDS).map(read_letter), st.sampled_from(State))
def test_no_criterion_means_everything(letter: Letter, state: State) -> None:
    """Whatever lies in a topic is meant by a filter that says nothing."""
    assert EVERYTHING.matches(letter, state)


@given((our_records() | RECORDS).map(read_letter), st.sampled_from(_MEANT + _OTHERS))
def test_a_filter_never_raises(letter: Letter, letter_filter: Filter) -> None:
    """A letter that says nothing of what is asked for is not meant; that is no error."""
    assert letter_filter.matches(letter, State.OPEN) in (True, False)


def test_letters_without_a_key_can_be_chosen() -> None:
    """There was no way to name them: an empty key is another one."""
    no_key = Filter(keys=(None,))
    assert no_key.matches(our_letter(key=None), State.OPEN)
    assert not no_key.matches(our_letter(key=b""), State.OPEN)
