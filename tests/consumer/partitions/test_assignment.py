"""The assignment: its epochs, its silent partitions, and those to be reclaimed."""

from hypothesis import given
from hypothesis import strategies as st

from linear_retry.consumer.partitions.assignment import (
    FIRST_TIMEOUT_S,
    LONGEST_TIMEOUT_S,
    RECLAIM_AFTER_S,
    Assignment,
)
from linear_retry.scope import Partition
from tests.fake.clock import VirtualClock

_P0, _P1 = ("orders", 0), ("orders", 1)


def _owned(*partitions: Partition) -> tuple[Assignment, VirtualClock]:
    clock = VirtualClock()
    assignment = Assignment(clock.now_s)
    assignment.take(partitions)
    return assignment, clock


def test_every_change_is_a_new_epoch() -> None:
    """Taken, dropped and given up; what comes back is told from what was held before, and what is
    kept keeps the epoch it was taken in."""
    assignment = Assignment(VirtualClock().now_s)
    epochs = [assignment.epoch]
    for change, partitions in (
        *((assignment.take, [_P0]), (assignment.take, [_P1]), (assignment.drop, [_P1])),
        *((assignment.take, [_P1]), (assignment.take, []), (assignment.mark_lost, [_P1])),
    ):
        change(partitions)
        epochs.append(assignment.epoch)
    assert sorted(set(epochs)) == epochs
    assert {_P0: epochs[1]} == assignment.epochs


def test_membership_is_what_was_taken_and_not_dropped() -> None:
    """`in` and `partitions` agree; dropping what is not ours is no error."""
    assignment, _ = _owned(_P0, _P1)
    assignment.drop([_P1, ("refunds", 9)])
    assert (_P0,) == assignment.partitions
    assert _P0 in assignment
    assert _P1 not in assignment


def test_silence_lasts_from_assign_to_the_first_delivery() -> None:
    """Silent until it delivers or ends; seeking makes it silent again."""
    assignment, _ = _owned(_P0)
    seen = [(assignment.is_silent(_P0), assignment.undisturbed)]
    assignment.note_delivered(_P0)
    seen.append((assignment.is_silent(_P0), assignment.undisturbed))
    assignment.expect(_P0)
    seen.append((assignment.is_silent(_P0), assignment.undisturbed))
    assignment.drop([_P0])
    seen.append((assignment.is_silent(_P0), assignment.undisturbed))
    assert [(True, False), (False, True), (True, False), (False, True)] == seen


def test_silence_becomes_suspicious_after_the_timeout() -> None:
    """Not before `FIRST_TIMEOUT_S`; what has spoken is above suspicion."""
    assignment, clock = _owned(_P0, _P1)
    assignment.note_delivered(_P1)
    clock.advance(FIRST_TIMEOUT_S - 0.001)
    assert [] == assignment.suspiciously_silent()
    clock.advance(0.001)
    assert [_P0] == assignment.suspiciously_silent()


def test_the_timeout_doubles_up_to_its_bound() -> None:
    """Looked at after 5, 10, 20 ... 300 s: an empty partition is seldom asked about."""
    (assignment, clock), waits_s = _owned(_P0), []
    for _ in range(9):
        assignment.extend_timeout(_P0)
        began_s = clock.now_s()
        while not assignment.suspiciously_silent():
            clock.advance(5.0)
        waits_s.append(clock.now_s() - began_s)
    assert [10.0, 20.0, 40.0, 80.0, 160.0, *[LONGEST_TIMEOUT_S] * 4] == waits_s


def test_the_timeout_is_kept_through_a_seek_and_reset_by_a_delivery() -> None:
    """Re-assigning a dead partition in a loop does not start at five seconds each time."""
    assignment, clock = _owned(_P0)
    assignment.extend_timeout(_P0)
    assignment.expect(_P0)
    clock.advance(9.9)
    assert [] == assignment.suspiciously_silent()
    clock.advance(0.1)
    assert [_P0] == assignment.suspiciously_silent()
    assignment.note_delivered(_P0)
    assignment.expect(_P0)
    clock.advance(FIRST_TIMEOUT_S)
    assert [_P0] == assignment.suspiciously_silent()


def test_a_new_assignment_has_the_first_timeout_again() -> None:
    """Another epoch, another fetcher."""
    assignment, clock = _owned(_P0)
    assignment.extend_timeout(_P0)
    assignment.take([_P0])
    clock.advance(FIRST_TIMEOUT_S)
    assert [_P0] == assignment.suspiciously_silent()


def test_given_up_partitions_disturb_until_it_is_settled() -> None:
    """librdkafka still delivers them, so what arrives has to be looked at."""
    assignment, _ = _owned(_P0)
    assignment.mark_lost([_P0])
    assert not assignment.undisturbed
    assignment.drop([_P0])
    assert assignment.undisturbed


def test_what_arrived_before_a_seek_is_stale() -> None:
    """It comes again in its order; what is another member's is stale always."""
    assignment, _ = _owned(_P0, _P1)
    serial = assignment.serial
    assert [False, False] == [assignment.is_stale(key, serial) for key in (_P0, _P1)]
    assignment.expect(_P0)
    assert [True, False] == [assignment.is_stale(key, serial) for key in (_P0, _P1)]
    assert not assignment.is_stale(_P0, assignment.serial)
    assignment.note_delivered(_P0)
    assert not assignment.is_stale(_P0, serial)
    assignment.drop([_P0])
    assert assignment.is_stale(_P0, assignment.serial)


def test_what_we_gave_up_ourselves_may_be_taken_back() -> None:
    """After a while, if nobody has taken it from us; a revoke or an assignment settles it."""
    assignment, clock = _owned(_P0, _P1)
    assignment.mark_lost([_P0, _P1])
    assert () == assignment.partitions
    clock.advance(RECLAIM_AFTER_S - 0.001)
    assert [] == assignment.reclaimable()
    clock.advance(0.001)
    assert [_P0, _P1] == assignment.reclaimable()
    assignment.drop([_P0])
    assignment.take([_P1])
    clock.advance(1e6)
    assert [] == assignment.reclaimable()


_steps = st.lists(
    st.tuples(
        st.sampled_from(["take", "drop", "disown", "spoke", "patient"]),
        st.sets(st.sampled_from([("a", 0), ("a", 1), ("b", 0)])),
    ),
    max_size=20,
)


@given(_steps)
def test_state_is_no_larger_than_what_was_assigned(steps: list[tuple[str, set[Partition]]]) -> None:
    """After any history only owned partitions are silent, and none is both owned and given up."""
    clock, owned = VirtualClock(), set[Partition]()
    assignment = Assignment(clock.now_s)
    for step, partitions in steps:
        clock.advance(1.0)
        if step == "take":
            assignment.take(partitions)
            owned |= partitions
        elif step == "drop":
            assignment.drop(partitions)
            owned -= partitions
        elif step == "disown":
            assignment.mark_lost(owned & partitions)
            owned -= partitions
        else:
            for partition in partitions:
                if step == "spoke":
                    assignment.note_delivered(partition)
                else:
                    assignment.extend_timeout(partition)
        assert owned == set(assignment.partitions)
    clock.advance(1e6)
    assert set(assignment.suspiciously_silent()) <= owned
    assert set() == owned & set(assignment.reclaimable())
