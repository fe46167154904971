"""What is left after SIGKILL, wherever it strikes?"""

from __future__ import annotations

import signal

import pytest

from linear_retry import events
from tests.scenarios.conftest import SceneFactory

pytestmark = pytest.mark.broker


@pytest.mark.parametrize("config", [{}, {"group.instance.id": "static"}], ids=["dynamic", "static"])
def test_killed_while_open(scene: SceneFactory, config: dict[str, str]) -> None:
    """A member killed while its circuit is open loses nothing: the next begins with its message."""
    group = scene(2, strategy=[60], config=config)
    group.produce(5, partition=0)
    first = group.spawn("first", {"0@2": ["outage"]})
    opened = group.wait_for(events.CircuitOpened)
    first.kill()
    assert (group.topic, 0, 2) == (opened.topic, opened.partition, opened.offset)
    group.produce(5, partition=1)
    second = group.spawn("second")
    group.wait_until_done()
    second.signal(signal.SIGTERM)
    assert 0 == second.exit_code()
    of_first_partition = [place for place in group.attempts("second") if place[1] == 0]
    assert (group.topic, 0, 2) == of_first_partition[0]
    assert [] == group.violations()


def test_killed_in_the_handler(scene: SceneFactory) -> None:
    """The message in hand when a member is killed is attempted again, and what follows after it."""
    group = scene()
    group.produce(6)
    first = group.spawn("first", {"0@3": ["kill"]})
    assert -signal.SIGKILL == first.exit_code()
    assert (group.topic, 0, 3) == group.attempts("first")[-1]
    assert (group.topic, 0, 3) not in group.handled("first")
    second = group.spawn("second")
    group.wait_until_done()
    second.signal(signal.SIGTERM)
    assert 0 == second.exit_code()
    assert (group.topic, 0, 3) in group.handled("second")
    assert [] == group.violations()


def test_killed_between_dead_letter_and_commit(scene: SceneFactory) -> None:
    """A letter acknowledged and not committed is written again, under the same retry-id."""
    group = scene()
    group.produce(4)
    refused = {"0@1": ["poison"]}
    first = group.spawn("first", refused, kill_on="DeadLettered")
    assert -signal.SIGKILL == first.exit_code()
    assert [1] == [event.offset for event in group.said(events.DeadLettered, "first")]
    assert group.committed().get((group.topic, 0), 0) <= 1
    second = group.spawn("second", refused)
    group.wait_until_done()
    second.signal(signal.SIGTERM)
    assert 0 == second.exit_code()
    letters = group.dead_letters()
    assert 2 == len(letters)
    assert letters[0].retry_id == letters[1].retry_id
    assert [1, 1] == [letter.original_offset for letter in letters]
    assert [] == group.violations()
