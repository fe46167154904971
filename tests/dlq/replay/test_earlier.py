"""A plan says which keys it would put out of order."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from linear_retry.dlq import Filter
from linear_retry.dlq.replay.order import Earlier, Placed
from tests.dlq.scene import NewScene, Scene

_PLACED = st.builds(
    Placed, st.integers(0, 1), st.sampled_from([None, b"a", b"b"]), st.integers(0, 9)
)


@settings(max_examples=200)
@given(st.lists(_PLACED), st.lists(_PLACED))
def test_what_stays_open_behind_a_later_one_of_its_key_is_counted(
    sent: list[Placed], kept: list[Placed]
) -> None:
    """In whatever order they are read; a message without a key has no order to keep."""
    with Earlier() as earlier:
        for each in kept:
            earlier.keep(each)
        found = earlier.count(sent)
    expected = sum(
        each.key is not None and any(one[:2] == each[:2] and one.place > each.place for one in sent)
        for each in kept
    )
    assert expected == found


def _planned(given: Scene, wanted: Filter, **more: object) -> int:
    with given.topic as topic, topic.plan_replay(wanted, **more) as plan:  # type: ignore[arg-type]  # passed on as they are
        return plan.earlier_open


@pytest.mark.broker
def test_older_open_letters_of_the_same_keys_are_counted(scene: NewScene) -> None:
    """Not those of other keys and partitions, nor those that are dealt with, nor later ones."""
    one = scene(2)
    keys = ((0, 1, b"a"), (0, 2, b"b"), (0, 3, b"a"), (1, 4, b"c"), (0, 5, b"a"))
    one.add_letters([one.letter(partition, n, key=key) for partition, n, key in keys])
    one.add_letters([one.letter(0, 4, key=key, reason="permanent") for key in (b"a", b"c")])
    permanent = Filter(reasons=("permanent",))
    assert 2 == _planned(one, permanent)
    assert 2 == _planned(one, permanent, to=one.source)
    assert 0 == _planned(one, Filter())
    assert 0 == _planned(one, Filter(limit=3))
    one.replay(Filter(limit=2))
    assert 1 == _planned(one, permanent)
