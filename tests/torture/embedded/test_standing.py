"""A play is over only when those who own its partitions say so."""

from linear_retry import events
from linear_retry.testing import Committed, Crashed, Entry, EventEmitted
from tests.torture.embedded.standing import reached

_ONE, _OTHER = ("orders", 1), ("orders", 2)


def _given(member: str, *partitions: tuple[str, int]) -> Entry:
    return EventEmitted(0.0, member, events.Assigned(partitions))


def test_what_another_has_committed_does_not_count() -> None:
    """It has let the partition go after the owner began: where that was is what will be committed
    next, and a play that had ended in between found the group behind what it had done."""
    log = [
        *(_given("first", _ONE), _given("second", _ONE), Committed(0.0, "first", {_ONE: 9})),
        EventEmitted(0.0, "first", events.Revoked((_ONE,))),
    ]
    assert [(_ONE, -1)] == reached(log)
    assert [(_ONE, 9)] == reached([*log, Committed(0.0, "second", {_ONE: 9})])


def test_who_has_gone_owns_nothing() -> None:
    """Killed, stopped, or lost; and what is committed late is nobody's then."""
    ends: list[Entry] = [
        Crashed(0.0, "first"),
        EventEmitted(0.0, "first", events.Stopped(left_group=True)),
        EventEmitted(0.0, "first", events.Lost((_ONE, _OTHER), "it is another's")),
    ]
    for end in ends:
        log = [_given("first", _ONE, _OTHER), end, Committed(0.0, "first", {_ONE: 9})]
        assert [] == reached(log)
