"""A plan says which keys it would put out of order."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from linear_retry.dlq import Filter
from linear_retry.dlq.replay.earlier import Earlier
from tests.dlq.scene import NewScene, Scene

_LETTERS = st.lists(
    st.tuples(
        st.booleans(), st.integers(0, 1), st.sampled_from([None, b"a", b"b"]), st.integers(0, 9)
    )
)


@settings(max_examples=200)
@given(_LETTERS)
def test_what_stays_open_behind_a_later_one_of_its_key_is_counted(
    letters: list[tuple[bool, int, bytes | None, int]],
) -> None:
    """In whatever order they are read; a message without a key has no order to keep."""
    with Earlier() as earlier:
        for is_sent, source, key, place in letters:
            (earlier.send if is_sent else earlier.keep)(source, key, place)
        found = earlier.count()
    sent = [letter for letter in letters if letter[0]]
    kept = [letter for letter in letters if not letter[0] and letter[2] is not None]
    expected = sum(any(one[1:3] == each[1:3] and one[3] > each[3] for one in sent) for each in kept)
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
