"""The limit of consecutive dead letters on a real broker."""

import pytest

from linear_retry import DeadLetters, events
from linear_retry.testing import LettersWithinLimit, broken
from tests.scenarios.conftest import SceneFactory
from tests.scenarios.handlers import Dependency

pytestmark = pytest.mark.broker


def test_a_bad_deployment(scene: SceneFactory) -> None:
    """Three letters, then it stands still; the deployment that mends it handles all the rest."""
    group = scene()
    group.produce(12)
    limited = DeadLetters(group.letters, limit=3)
    bad = Dependency()
    bad.refuses = {(0, offset) for offset in range(12)}
    member = group.join("bad", bad, dead_letters=limited)
    reached = group.wait_for(events.LimitReached)
    assert (3, 1, 3, 30.0) == (reached.offset, reached.failures, reached.limit, reached.delay_s)
    member.stop()
    assert [0, 1, 2] == [letter.original_offset for letter in group.dead_letters()]
    assert {(group.topic, 0): 3} == group.committed()
    mended = group.join("mended", Dependency(), dead_letters=limited)
    group.wait_until_done()
    mended.stop()
    assert 3 == len(group.dead_letters())
    assert [] == broken(group.log(), [LettersWithinLimit(3)])
    assert [] == group.violations()


def test_a_dependency_that_looks_like_bad_messages(scene: SceneFactory) -> None:
    """It is back, and an operator does not wait for the hold to end: the rest is handled."""
    group = scene()
    group.produce(8)
    dependency = Dependency()
    dependency.refuses = {(0, offset) for offset in range(8)}
    member = group.join("first", dependency, dead_letters=DeadLetters(group.letters, limit=2))
    reached = group.wait_for(events.LimitReached)
    dependency.refuses = set()
    place = (reached.topic, reached.partition, reached.offset)
    assert member.consumer.retry_now(*place).result(10)
    group.wait_until_done()
    member.stop()
    assert [0, 1] == [letter.original_offset for letter in group.dead_letters()]
    assert [] == broken(group.log(), [LettersWithinLimit(2)])
    assert [] == group.violations()
