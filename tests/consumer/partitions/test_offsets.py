"""Only what is done is committed, and a jump is believed only when it must be."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from linear_retry.consumer.partitions.offsets import OffsetClass, Offsets

_P0, _P1, _P2 = ("orders", 0), ("orders", 1), ("refunds", 0)


def _at(next_offset: int | None) -> Offsets:
    offsets = Offsets()
    offsets.begin([_P0])
    if next_offset is not None:
        offsets.start_at(_P0, next_offset)
    return offsets


@pytest.mark.parametrize(
    ("next_offset", "arrivals", "beliefs"),
    [
        (None, [0], ["next"]),
        (None, [1042], ["next"]),
        (0, [0], ["next"]),
        (10, [10], ["next"]),
        (10, [9], ["duplicate"]),
        (10, [0, 0], ["duplicate", "duplicate"]),
        (10, [11], ["suspect"]),
        (10, [11, 11], ["suspect", "gap"]),
        (10, [11, 10], ["suspect", "next"]),
        (10, [11, 9, 11], ["suspect", "duplicate", "gap"]),
        (10, [11, 12, 12], ["suspect", "suspect", "gap"]),
        (10, [12, 11, 12], ["suspect", "suspect", "suspect"]),
        (0, [5, 5], ["suspect", "gap"]),
    ],
)
def test_what_to_think_of_a_first_offset(
    next_offset: int | None, arrivals: list[int], beliefs: list[OffsetClass]
) -> None:
    """Behind is early, ahead is doubted once, the same jump twice is a gap."""
    offsets = _at(next_offset)
    assert beliefs == [offsets.classify_offset(_P0, offset) for offset in arrivals]


@given(st.integers(0, 2**63 - 1), st.lists(st.integers(0, 2**63 - 1), max_size=5))
def test_classifying_never_skips_and_never_repeats(next_offset: int, arrivals: list[int]) -> None:
    """Only the next offset is taken at first sight, and nothing before it ever is."""
    offsets, before = _at(next_offset), None
    for offset in arrivals:
        belief = offsets.classify_offset(_P0, offset)
        assert (offset == next_offset) == (belief == "next")
        assert (offset < next_offset) == (belief == "duplicate")
        if belief == "gap":
            assert offset == before
        if belief == "suspect":
            before = offset


def test_progress_ends_a_doubt() -> None:
    """What was doubted before something was done is doubted again, once."""
    offsets = _at(10)
    assert "suspect" == offsets.classify_offset(_P0, 20)
    offsets.done({_P0: 11})
    assert "suspect" == offsets.classify_offset(_P0, 20)
    assert "gap" == offsets.classify_offset(_P0, 20)


def test_after_a_reset_the_first_offset_is_accepted_once() -> None:
    """`auto.offset.reset` may go anywhere, back too; the offset after that is judged again."""
    for offset in (0, 10, 99):
        offsets = _at(10)
        offsets.reset(_P0, -2, has_commit=True)
        assert "reset" == offsets.classify_offset(_P0, offset)
        assert "suspect" == offsets.classify_offset(_P0, 1_000)


def test_a_reset_keeps_what_is_done() -> None:
    """Messages in memory may be before the place that was lost: they are still to be committed."""
    offsets = _at(None)
    offsets.done({_P0: 10})
    offsets.reset(_P0, 50, has_commit=True)
    assert {_P0: 10} == offsets.uncommitted()
    assert 10 == offsets.next_offset(_P0)
    assert {_P0: 50} == offsets.starts()
    offsets.classify_offset(_P0, 50)
    assert {_P0: 10} == offsets.starts()


def test_a_known_beginning_ends_a_reset() -> None:
    """Once it is known where it goes on, that is where it would begin again."""
    offsets = _at(None)
    offsets.reset(_P0, -2, has_commit=True)
    offsets.start_at(_P0, 7)
    assert {_P0: 7} == offsets.starts()
    assert "suspect" == offsets.classify_offset(_P0, 8)


def test_a_beginning_before_what_is_committed_is_committed_once() -> None:
    """In a topic that was deleted and made again; it used to be committed every second for ever."""
    offsets = _at(6)
    offsets.committed({_P0: (6, "")})
    offsets.reset(_P0, -2, has_commit=True)
    offsets.start_at(_P0, 0)
    assert {_P0: 0} == offsets.uncommitted()
    offsets.committed({_P0: (0, "")})
    assert {} == offsets.uncommitted()


def test_without_a_committed_offset_the_first_is_committed() -> None:
    """A group that begins at `latest` commits where it began, or a revoke would lose it."""
    offsets = _at(None)
    assert offsets.has_commit(_P0)
    offsets.reset(_P0, -1, has_commit=False)
    assert not offsets.has_commit(_P0)
    offsets.note_first_commit(_P0)
    assert offsets.has_commit(_P0)


def test_uncommitted_is_what_is_done_and_not_acknowledged() -> None:
    """Of all partitions or of some; what was never delivered and what is not ours is not in it."""
    offsets = Offsets()
    offsets.begin([_P0, _P1, _P2])
    assert {} == offsets.uncommitted()
    offsets.done({_P0: 5, _P1: 7})
    assert {_P0: 5, _P1: 7} == offsets.uncommitted()
    assert {_P1: 7} == offsets.uncommitted([_P1, _P2, ("elsewhere", 0)])
    offsets.committed({_P0: (5, ""), _P1: (6, "")})
    assert {_P1: 7} == offsets.uncommitted()
    assert {} == offsets.uncommitted([])


def test_what_was_acknowledged_last_is_what_the_broker_has() -> None:
    """An older commit that arrived after a newer one has undone that: it is to be sent again."""
    offsets = _at(None)
    offsets.done({_P0: 9})
    offsets.committed({_P0: (9, "")})
    offsets.committed({_P0: (4, "")})
    assert {_P0: 9} == offsets.uncommitted()


def test_what_is_not_ours_is_not_ours_to_note() -> None:
    """Answers and results for a revoked partition leave no trace, and a new epoch knows nothing."""
    offsets = _at(None)
    offsets.done({_P0: 9})
    offsets.forget([_P0, _P1])
    offsets.done({_P0: 10})
    offsets.committed({_P0: (10, "")})
    assert ({}, {}) == (offsets.uncommitted(), offsets.starts())
    offsets.begin([_P0])
    assert offsets.next_offset(_P0) is None
    assert {} == offsets.uncommitted()


_steps = st.lists(
    st.tuples(
        st.sampled_from(["begin", "forget", "done", "committed"]),
        st.sampled_from([_P0, _P1]),
        st.integers(0, 20),
    ),
    max_size=30,
)


@given(_steps)
def test_committed_is_done_and_owned(steps: list[tuple[str, tuple[str, int], int]]) -> None:
    """After any history: what is to be committed is owned, and is the last that was done."""
    offsets, owned = Offsets(), dict[tuple[str, int], int | None]()
    for step, key, offset in steps:
        if step == "begin":
            offsets.begin([key])
            owned[key] = None
        elif step == "forget":
            offsets.forget([key])
            owned.pop(key, None)
        elif step == "done":
            offsets.done({key: offset})
            if key in owned:
                owned[key] = offset
        else:
            offsets.committed({key: (offset, "")})
        assert offsets.uncommitted().items() <= owned.items()
        assert owned == offsets.starts()


def test_what_is_in_a_transaction_is_not_committed() -> None:
    """A transaction may have committed more: what is lower, arriving later, would undo that."""
    offsets = _at(3)
    offsets.begin([_P1])
    offsets.start_at(_P1, 5)
    offsets.begin_transaction(_P0)
    seen = [(offsets.is_in_transaction(_P0), offsets.uncommitted(), offsets.uncommitted([_P0]))]
    offsets.end_transaction(_P0)
    seen.append((offsets.is_in_transaction(_P0), offsets.uncommitted(), offsets.uncommitted([_P0])))
    assert [(True, {_P1: 5}, {}), (False, {_P0: 3, _P1: 5}, {_P0: 3})] == seen


def test_a_transaction_mark_ends_with_the_ownership() -> None:
    """Whoever is given the partition, we included, begins where the group says."""
    offsets = _at(3)
    offsets.begin_transaction(_P0)
    offsets.forget([_P0])
    offsets.end_transaction(_P0)
    offsets.begin([_P0])
    assert not offsets.is_in_transaction(_P0)


def test_the_tail_is_done_once_everything_before_it_is() -> None:
    """No message follows from 12 to 15: whoever has handled 11 is at 15, and before that nobody."""
    offsets = _at(10)
    offsets.note_tail(_P0, 12, 15)
    seen = [offsets.next_offset(_P0)]
    for done in (11, 12):
        offsets.done({_P0: done})
        seen.append(offsets.next_offset(_P0))
    assert [10, 11, 15] == seen
    offsets.note_tail(_P0, 15, 16)
    assert {_P0: 16} == offsets.uncommitted()


@pytest.mark.parametrize("begins", [0, 30])
def test_a_tail_does_not_outlive_what_it_was_seen_in(begins: int) -> None:
    """Begun again elsewhere, as its log was truncated: a message may be what was none."""
    offsets = _at(10)
    offsets.note_tail(_P0, 12, 15)
    offsets.reset(_P0, begins, has_commit=True)
    offsets.done({_P0: 12})
    assert 12 == offsets.next_offset(_P0)
