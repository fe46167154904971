"""Everything that a consumer retains is counted."""

from confluent_kafka import Message

from linear_retry.retry.case import Failing, Held
from linear_retry.scope import Scope
from tests.consumer.joined_parts import Joined
from tests.soak.retained import entries

_P0, _P1 = ("orders", 0), ("orders", 1)


def _entries(joined: Joined) -> int:
    return entries([joined.assignment, joined.offsets, joined.circuits, joined.read_ahead])


def test_each_owner_is_counted() -> None:
    """With a partition or a circuit more the count grows; without them it falls."""
    joined = Joined()
    counts = [_entries(joined)]
    joined.assignment.take([_P0, _P1])
    counts.append(_entries(joined))
    joined.offsets.begin([_P0, _P1])
    counts.append(_entries(joined))
    held = Held(Message(topic="orders", partition=0, offset=1), _P0, 1, 1)
    joined.circuits.open(Scope(), Failing(held), 0.0, 1.0, 0)
    counts.append(_entries(joined))
    assert sorted(set(counts)) == counts
    joined.circuits.close(Scope(), 1.0)
    joined.offsets.forget([_P0, _P1])
    joined.assignment.drop([_P0, _P1])
    assert counts[0] == _entries(joined)


def test_what_is_read_ahead_is_left_out() -> None:
    """A batch comes and goes."""
    joined = Joined()
    before = _entries(joined)
    joined.read_ahead.keep([Message(topic="orders", partition=0, offset=n) for n in range(9)])
    assert before == _entries(joined)
