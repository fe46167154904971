"""A narrow scope on a real broker, while members come and go."""

from typing import Literal, TypeAlias, get_args

import pytest

from linear_retry import RetryAfter, events
from linear_retry.kafka import Message
from linear_retry.kafka.consumer.messages import partition_of
from linear_retry.scope import Partition, Scope
from tests.kafka_operations import wait_until
from tests.scenarios.protocols import COOPERATIVE, each_protocol
from tests.scenarios.wide_scene import WideScene, WideSceneFactory
from tests.testing.violations import done_places

pytestmark = pytest.mark.broker

Narrow: TypeAlias = Literal["topic", "partition"]
each_scope = pytest.mark.parametrize("scope", get_args(Narrow))


class Partial:
    """A dependency that is down for some partitions, and says how long to leave it alone."""

    def __init__(self) -> None:
        self.asks_s: dict[Partition, float] = {}

    def __call__(self, message: Message) -> None:
        wait_s = self.asks_s.get(partition_of(message))
        if wait_s is not None:
            raise RetryAfter(wait_s)


def _flow(group: WideScene, partitions: list[Partition]) -> None:
    """More for these, and it is handled."""
    for topic, number in partitions:
        group.fill(topic, 20, number)
    found = group.visible()
    wanted = {(*key, offset) for key in partitions for offset in found[key]}
    wait_until(lambda: wanted <= done_places(group.log()), "they go on", detail=group.story)


@each_protocol
@each_scope
def test_others_go_on(
    protocol: dict[str, str], scope: Narrow, wide_scene: WideSceneFactory
) -> None:
    """Three partitions fail at once, each with a wait of its own; what is outside their scopes is
    handled all the while, also while a member joins and leaves."""
    group = wide_scene(protocol, 4, 4, strategy=[0.1])
    one, other = group.topics
    every = [(topic, number) for topic in group.topics for number in range(4)]
    third = (other, 1) if scope == "partition" else (one, 3)
    failing: dict[Partition, float] = {(one, 0): 0.3, (one, 2): 0.7, third: 1.1}
    scopes = {Scope.of(scope, key) for key in failing}
    others = [key for key in every if not any(each.covers(key) for each in scopes)]
    dependency = Partial()
    options = {"topics": group.topics, "scope": scope, "on_exhausted": "repeat"}
    first = group.join("first", dependency, **options)
    _flow(group, every)
    dependency.asks_s = failing
    for topic, number in failing:
        group.fill(topic, 5, number)
    wait_until(lambda: scopes <= set(first.consumer.circuits), "open", detail=group.story)
    _flow(group, others)
    second = group.join("second", dependency, **options)
    group.wait_for(events.Assigned, member="second")
    _flow(group, others)
    second.stop()
    _flow(group, others)
    failed = {key for key in failing for place in group.failed() if place[:2] == key}
    dependency.asks_s = {}
    group.wait_until_done()
    first.stop()
    assert scopes == {Scope.of(scope, key) for key in failed}
    assert scopes == {event.scope for event in group.emitted(events.CircuitOpened)}
    assert [] == group.violations()


def test_a_long_queue_of_open_scopes_blocks_nobody(wide_scene: WideSceneFactory) -> None:
    """librdkafka has one queue for all partitions: full of what stands still, it is emptied, and
    the others' messages come through."""
    group = wide_scene(COOPERATIVE | {"queued.max.messages.kbytes": 256}, 4, strategy=[0.2])
    (topic,) = group.topics
    big = [(number, None, b"x" * 1000, ()) for number in (0, 1, 2) for _ in range(1500)]
    group.write(big, topic)
    dependency = Partial()
    dependency.asks_s = {(topic, number): 0.5 for number in (0, 1, 2)}
    member = group.join("first", dependency, scope="partition", on_exhausted="repeat")
    wait_until(lambda: len(member.consumer.circuits) == 4, "three are open", detail=group.story)
    for _ in range(5):
        _flow(group, [(topic, 3)])
    dependency.asks_s = {}
    group.wait_until_done()
    member.stop()
    assert [] == group.violations()
