"""One member attempts for its whole group on a real broker."""

from collections import Counter
from itertools import cycle
from typing import Any

import pytest

from linear_retry import LinearConsumer, events
from linear_retry.consumer.settings.by_key import ByKey
from linear_retry.scope import Scope
from linear_retry.testing import AttemptStarted
from tests.conftest import TopicFactory
from tests.kafka_operations import wait_until
from tests.scenarios.conftest import SceneFactory
from tests.scenarios.handlers import Dependency
from tests.scenarios.scene import Scene

pytestmark = pytest.mark.broker

_MEMBERS, _PARTITIONS = 3, 6
_WAYS: list[dict[str, Any]] = [
    {"scope": "consumer"},
    {"scope": ByKey(trip=2), "concurrency": 4},
]


def _produce(group: Scene) -> None:
    keys = cycle([b"a", b"b", b"c"])
    numbers = range(10 * _PARTITIONS)
    group.write([(number % _PARTITIONS, next(keys), b"%d" % number, ()) for number in numbers])


def _holds(consumer: LinearConsumer) -> bool:
    return consumer.circuits[Scope()].waits_for == "group"


def _attempts(group: Scene) -> list[AttemptStarted]:
    return [entry for entry in group.log() if isinstance(entry, AttemptStarted)]


@pytest.mark.parametrize("way", _WAYS, ids=["consumer", "key"])
def test_one_of_a_group_attempts_until_it_succeeds(
    scene: SceneFactory, topic: TopicFactory, way: dict[str, Any]
) -> None:
    """The others hold what they have, and whoever joins does; then all go on with it."""
    group = scene(strategy=[0.5] * 200, partitions=_PARTITIONS)
    options = {"control": topic(), "group_breaker": True, "group_breaker_max_s": 600.0} | way
    dependency = Dependency()
    members = [group.join(f"member-{n}", dependency, **options) for n in range(_MEMBERS)]
    _produce(group)
    group.wait_until_done()
    dependency.down = True
    _produce(group)
    group.wait_for(events.HeldByGroup, _MEMBERS - 1)
    before = len(_attempts(group))
    wait_until(lambda: len(_attempts(group)) >= before + 5, "attempts", detail=group.story)
    alone = Counter(entry.member for entry in _attempts(group)[before:])
    assert 1 == len(alone), group.story()
    members.append(group.join("late", dependency, **options))
    group.wait_for(events.HeldByGroup, member="late")
    dependency.down = False
    group.wait_until_done()
    consumers = [member.consumer for member in members]
    wait_until(lambda: not any(map(_holds, consumers)), "all go on", detail=group.story)
    assert any(end.recovered for end in group.emitted(events.GroupHoldEnded))
    assert all(event.error for event in group.emitted(events.HeldByGroup))
    for member in members:
        member.stop()
    assert [] == group.violations(by_key=way["scope"] != "consumer")


def test_another_takes_over_from_a_member_that_is_stopped(
    scene: SceneFactory, topic: TopicFactory
) -> None:
    """Its last word is that it attempts no more; one of the others claims the next turn."""
    group = scene(strategy=[0.5] * 200, partitions=_PARTITIONS)
    options = {"control": topic(), "group_breaker": True, "group_breaker_max_s": 600.0}
    dependency = Dependency()
    members = {f"member-{n}": group.join(f"member-{n}", dependency, **options) for n in range(3)}
    _produce(group)
    group.wait_until_done()
    dependency.down = True
    _produce(group)
    group.wait_for(events.HeldByGroup, _MEMBERS - 1)
    (leader,) = (name for name in members if not group.emitted(events.HeldByGroup, name))
    members.pop(leader).stop()
    group.wait_for(events.GroupHoldEnded)
    before = len(_attempts(group))
    wait_until(lambda: len(_attempts(group)) >= before + 5, "attempts", detail=group.story)
    assert 1 == len({entry.member for entry in _attempts(group)[before:]}), group.story()
    dependency.down = False
    group.wait_until_done()
    for member in members.values():
        member.stop()
    assert [] == group.violations()
