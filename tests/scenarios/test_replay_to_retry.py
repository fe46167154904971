"""Letters that are replayed into a retry topic are retried beside the live line."""

import pytest

from linear_retry import RetryTopics, events
from linear_retry.dlq import DeadLetterTopic
from tests.kafka_operations import wait_until
from tests.scenarios.retry_scene import Outage, RetrySceneFactory

pytestmark = pytest.mark.broker


def _two(prefix: str) -> RetryTopics:
    return RetryTopics(prefix, strategy=["200ms", "400ms"], limit=None)


@pytest.mark.parametrize("transactional", [False, True])
def test_letters_take_all_steps_again(retry_scene: RetrySceneFactory, transactional: bool) -> None:
    """One is saved this time; the other is dead-lettered again: the same id, one generation more.

    The live line sees neither of them.
    """
    group = retry_scene(_two, transactional=transactional, strategy=[])
    group.write([(0, None, value, ()) for value in (b"lost *", b"saved 4")])
    dependency = Outage()
    group.live(dependency)
    group.retry(dependency)
    group.wait_for(events.DeadLettered, times=2)
    steps = len(group.steps())
    first, second = group.retries.topics
    config = {"bootstrap.servers": group.kafka.bootstrap}
    with DeadLetterTopic(group.letters, config) as letters:
        with letters.plan_replay(to_retry=first) as plan:
            assert () == letters.absent_groups(plan)
            assert 2 == letters.replay(plan, by="test")
        wait_until(lambda: bool(dependency.seen), "one is saved")
        group.wait_for(events.DeadLettered, times=3)
        assert [(b"saved 4", 5)] == dependency.seen
        found = [letter for letter, state in letters.letters() if letter.value == b"lost *"]
    one, two = found
    assert (one.id, 1, 2) == (two.id, one.generation, two.generation)
    # By the replay, then by the first step that is not shorter, then by what follows.
    assert ([3, 3], [2, 2]) == ([each.failures for each in found], [each.step for each in found])
    lost = [(first, 0), (first, 1), (second, 2)]
    assert sorted([*lost, *lost[:2]]) == sorted(group.steps()[steps:])
    assert 2 == len(group.attempts("live"))
    assert [] == group.end_well()
