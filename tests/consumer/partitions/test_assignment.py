"""What is ours, since which epoch, and what has not spoken yet?"""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from linear_retry.consumer.partitions.assignment import (
    FIRST_PATIENCE_S,
    LONGEST_PATIENCE_S,
    RECLAIM_AFTER_S,
    Ownership,
)
from linear_retry.scope import Partition

_P0, _P1 = ("orders", 0), ("orders", 1)


def _owning(*partitions: Partition, now_s: float = 100.0) -> Ownership:
    ownership = Ownership()
    ownership.take(partitions, now_s)
    return ownership


def test_every_change_is_a_new_epoch() -> None:
    """Taken, dropped and disowned change it; what is kept keeps the epoch it was taken in."""
    ownership = Ownership()
    epochs = [ownership.epoch]
    ownership.take([_P0], 1.0)
    epochs.append(ownership.epoch)
    ownership.take([_P1], 2.0)
    epochs.append(ownership.epoch)
    ownership.drop([_P1])
    epochs.append(ownership.epoch)
    ownership.disown([_P0], 3.0)
    epochs.append(ownership.epoch)
    assert sorted(set(epochs)) == epochs


def test_what_comes_back_comes_in_another_epoch() -> None:
    """A message held before a revoke is told from one held after it."""
    ownership = _owning(_P0, _P1)
    before = ownership.epoch_of(_P0)
    assert ownership.epoch_of(_P1) == before
    ownership.drop([_P0])
    assert ownership.epoch_of(_P0) is None
    ownership.take([_P0], 101.0)
    assert before != ownership.epoch_of(_P0)
    assert before == ownership.epoch_of(_P1)


def test_an_empty_assignment_changes_nothing_but_the_epoch() -> None:
    """Empty callbacks occur."""
    ownership = _owning(_P0)
    ownership.take([], 101.0)
    ownership.drop([])
    assert (_P0,) == ownership.partitions


def test_membership_is_what_was_taken_and_not_dropped() -> None:
    """`in` and `partitions` agree; dropping what is not ours is no error."""
    ownership = _owning(_P0, _P1)
    ownership.drop([_P1, ("refunds", 9)])
    assert (_P0,) == ownership.partitions
    assert _P0 in ownership
    assert _P1 not in ownership


def test_silence_lasts_from_assign_to_the_first_word() -> None:
    """Silent until it delivers or ends; seeking makes it silent again."""
    ownership = _owning(_P0)
    seen = [(ownership.is_silent(_P0), ownership.undisturbed)]
    ownership.has_spoken(_P0)
    seen.append((ownership.is_silent(_P0), ownership.undisturbed))
    ownership.expect(_P0, 101.0)
    seen.append((ownership.is_silent(_P0), ownership.undisturbed))
    ownership.drop([_P0])
    seen.append((ownership.is_silent(_P0), ownership.undisturbed))
    assert [(True, False), (False, True), (True, False), (False, True)] == seen


def test_silence_becomes_suspicious_when_patience_ends() -> None:
    """Not before `FIRST_PATIENCE_S`; what has spoken is above suspicion."""
    ownership = _owning(_P0, _P1)
    ownership.has_spoken(_P1)
    assert [] == ownership.suspiciously_silent(100.0 + FIRST_PATIENCE_S - 0.001)
    assert [_P0] == ownership.suspiciously_silent(100.0 + FIRST_PATIENCE_S)


def test_patience_doubles_up_to_its_bound() -> None:
    """Looked at after 5, 10, 20 ... 300 s: an empty partition is seldom asked about."""
    ownership, now_s, waits_s = _owning(_P0, now_s=0.0), 0.0, []
    for _ in range(9):
        ownership.be_patient(_P0, now_s)
        waited_s = next(
            wait_s
            for wait_s in (5.0, 10.0, 20.0, 40.0, 80.0, 160.0, 300.0)
            if ownership.suspiciously_silent(now_s + wait_s)
        )
        waits_s.append(waited_s)
        now_s += waited_s
    assert [10.0, 20.0, 40.0, 80.0, 160.0, *[LONGEST_PATIENCE_S] * 4] == waits_s


def test_patience_is_kept_through_a_seek_and_lost_with_a_word() -> None:
    """Re-assigning a dead partition in a loop does not start at five seconds each time."""
    ownership = _owning(_P0)
    ownership.be_patient(_P0, 100.0)
    ownership.expect(_P0, 200.0)
    assert [] == ownership.suspiciously_silent(209.9)
    assert [_P0] == ownership.suspiciously_silent(210.0)
    ownership.has_spoken(_P0)
    ownership.expect(_P0, 300.0)
    assert [_P0] == ownership.suspiciously_silent(300.0 + FIRST_PATIENCE_S)


def test_a_new_assignment_has_patience_anew() -> None:
    """Another epoch, another fetcher."""
    ownership = _owning(_P0)
    ownership.be_patient(_P0, 100.0)
    ownership.take([_P0], 200.0)
    assert [_P0] == ownership.suspiciously_silent(200.0 + FIRST_PATIENCE_S)


def test_patience_with_what_has_spoken_is_nothing() -> None:
    """The answer may come after the first message."""
    ownership = _owning(_P0)
    ownership.has_spoken(_P0)
    ownership.be_patient(_P0, 100.0)
    assert ownership.undisturbed


def test_given_up_partitions_disturb_until_it_is_settled() -> None:
    """librdkafka still delivers them, so what arrives has to be looked at."""
    ownership = _owning(_P0)
    ownership.disown([_P0], 100.0)
    assert not ownership.undisturbed
    ownership.drop([_P0])
    assert ownership.undisturbed


def test_what_arrived_before_a_seek_is_stale() -> None:
    """It comes again in its order; what is another member's is stale always."""
    ownership = _owning(_P0, _P1)
    serial = ownership.serial
    assert [False, False] == [ownership.is_stale(key, serial) for key in (_P0, _P1)]
    ownership.expect(_P0, 101.0)
    assert [True, False] == [ownership.is_stale(key, serial) for key in (_P0, _P1)]
    assert not ownership.is_stale(_P0, ownership.serial)
    ownership.has_spoken(_P0)
    assert not ownership.is_stale(_P0, serial)
    ownership.drop([_P0])
    assert ownership.is_stale(_P0, ownership.serial)


def test_what_we_gave_up_ourselves_may_be_taken_back() -> None:
    """After a while, if nobody has taken it from us; a revoke or an assignment settles it."""
    ownership = _owning(_P0, _P1)
    ownership.disown([_P0, _P1], 100.0)
    assert () == ownership.partitions
    assert [] == ownership.reclaimable(100.0 + RECLAIM_AFTER_S - 0.001)
    assert [_P0, _P1] == ownership.reclaimable(100.0 + RECLAIM_AFTER_S)
    ownership.drop([_P0])
    ownership.take([_P1], 101.0)
    assert [] == ownership.reclaimable(1e9)


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
    ownership, owned = Ownership(), set[Partition]()
    for now, (step, partitions) in enumerate(steps):
        if step == "take":
            ownership.take(partitions, float(now))
            owned |= partitions
        elif step == "drop":
            ownership.drop(partitions)
            owned -= partitions
        elif step == "disown":
            ownership.disown(owned & partitions, float(now))
            owned -= partitions
        else:
            for partition in partitions:
                if step == "spoke":
                    ownership.has_spoken(partition)
                else:
                    ownership.be_patient(partition, float(now))
        assert owned == set(ownership.partitions)
        assert set(ownership.suspiciously_silent(1e9)) <= owned
        assert set() == owned & set(ownership.reclaimable(1e9))
