"""Topics grow, appear or vanish while a consumer runs."""

import re
import threading
from ast import literal_eval

import pytest

from linear_retry import ConfigurationError, events
from linear_retry.scope import Partition
from tests.kafka_operations import wait_until
from tests.patience import PATIENCE_S
from tests.real_kafka import RealKafka
from tests.scenarios.conftest import SceneFactory
from tests.scenarios.handlers import Dependency
from tests.scenarios.protocols import both_protocols
from tests.scenarios.scene import Scene
from tests.scenarios.wide_scene import WideSceneFactory

pytestmark = pytest.mark.broker

QUICK_TO_FIND = {"topic.metadata.refresh.interval.ms": 300}


@both_protocols
def test_partitions_added_while_open(protocol: dict[str, str], scene: SceneFactory) -> None:
    """Partitions added while a circuit is open are found, stand still, and are then all read."""
    group = scene(2, strategy=[0.2], config=protocol | QUICK_TO_FIND)
    group.produce(3)
    dependency = Dependency()
    dependency.down = True
    member = group.join("first", dependency, on_exhausted="repeat")
    group.wait_for(events.CircuitOpened)
    group.kafka.add_partitions(group.topic, 4)
    for number in (1, 2, 3):
        group.produce(3, number)
    wait_until(lambda: _assigned(group, (group.topic, 3)), "it is found", detail=group.story)
    group.wait_for(events.ProbeFailed, len(group.emitted(events.ProbeFailed)) + 2)
    before = set(group.attempts())
    dependency.down = False
    group.wait_until_done()
    member.stop()
    # Eager: all is revoked meanwhile, and the message that comes first then is the held one.
    assert {0} == {place.offset for place in before}
    assert len(before) <= 2
    assert [] == group.violations()


@both_protocols
def test_new_topic_of_a_pattern(
    protocol: dict[str, str], scene: SceneFactory, kafka: RealKafka
) -> None:
    """A topic that comes to match the pattern is found, and read from its beginning."""
    group = scene(1, config=protocol | QUICK_TO_FIND)
    pattern = f"^late-{group.topic}.*"
    kafka.create_topic(f"late-{group.topic}-1", 1)
    member = group.join("first", Dependency(), topics=[pattern])
    group.wait_for(events.Assigned)
    kafka.create_topic(f"late-{group.topic}-2", 1)
    group.write([(0, None, b"value", ())] * 3, f"late-{group.topic}-2")
    wait_until(lambda: len(group.handled()) == 3, "it is found", detail=group.story)
    member.stop()
    assert [(f"late-{group.topic}-2", 0, offset) for offset in range(3)] == group.handled()
    assert [] == group.violations()


@both_protocols
def test_source_deleted_and_made_again(
    protocol: dict[str, str], wide_scene: WideSceneFactory, kafka: RealKafka
) -> None:
    """A source that is deleted is said to be gone, and read from its beginning once it is back."""
    group = wide_scene(protocol | QUICK_TO_FIND)
    vanishing, staying = group.topics
    group.fill(vanishing, 3)
    member = group.join("first", Dependency(), topics=group.topics)
    wait_until(lambda: len(group.handled()) == 3, "all is handled", detail=group.story)
    kafka.delete_topic(vanishing)
    wait_until(lambda: _taken_away(group, (vanishing, 0)), "it is revoked", detail=group.story)
    group.fill(staying, 3)
    wait_until(lambda: len(group.handled()) == 6, "the other goes on", detail=group.story)
    kafka.create_topic(vanishing, 1)
    group.fill(vanishing, 2)
    wait_until(lambda: len(group.handled()) == 8, "it is found again", detail=group.story)
    member.stop()
    assert [(vanishing, 0, 0), (vanishing, 0, 1)] == group.handled()[-2:]
    assert [] == group.violations()


@both_protocols
def test_source_deleted_before_the_commit(
    protocol: dict[str, str], wide_scene: WideSceneFactory, kafka: RealKafka
) -> None:
    """A commit for a topic that is gone is said to have failed, and ends nothing: others go on.

    It used to end the consumer where the commit was refused before the topic was found to be gone.
    """
    group = wide_scene(protocol)
    vanishing, staying = group.topics
    deleted = threading.Event()
    group.fill(vanishing, 1)
    member = group.join(
        "first", lambda _: deleted.wait(PATIENCE_S), topics=group.topics, close_timeout_s=2
    )
    group.wait_for_attempts(1)
    kafka.delete_topic(vanishing)
    deleted.set()
    failed = group.wait_for(events.CommitFailed)
    group.fill(staying, 3)
    wait_until(lambda: len(group.handled()) == 4, "the other goes on", detail=group.story)
    group.topics.remove(vanishing)
    wait_until(lambda: 3 == group.committed().get((staying, 0)), "the other is committed")
    member.stop()
    assert ((vanishing, 0),) == failed.partitions
    assert [] == group.violations()


def test_pattern_that_matches_the_dead_letters(scene: SceneFactory) -> None:
    """A pattern that matches the dead-letter topic is refused before anything is read."""
    group = scene()
    with pytest.raises(ConfigurationError, match=f"matches '{group.letters}'"):
        group.join("first", Dependency(), topics=["^topic-.*"])


def test_pattern_that_matches_another_groups_retries(scene: SceneFactory, kafka: RealKafka) -> None:
    """Refused before anything is read; with the remedy of the message they are not read."""
    group = scene()
    sources = f"wide-{group.topic}"
    for topic in (sources, f"{sources}.retry.5m"):
        kafka.create_topic(topic, 1)
    group.write([(0, None, b"value", ())], sources)
    kafka.produce(f"{sources}.retry.5m", [(0, None, b"value", ())])
    refused = group.join("first", Dependency(), topics=[f"^{sources}"])
    with pytest.raises(ConfigurationError, match=f"retry topics {sources}.retry.5m: ") as caught:
        refused.result()
    (remedy,) = re.findall("{.*}$", str(caught.value))
    config = literal_eval(remedy)
    member = group.join("second", Dependency(), topics=[f"^{sources}"], config=config)
    wait_until(lambda: group.handled() != [], "it is read", detail=group.story)
    member.stop()
    assert [(sources, 0, 0)] == group.handled()


def test_pattern_that_only_the_broker_understands(scene: SceneFactory, kafka: RealKafka) -> None:
    """A pattern that matches the dead-letter topic in POSIX's way only ends the run at once."""
    group = scene()
    source, letters = f"posix-{group.topic}-1", f"posix-{group.topic}-2"
    kafka.create_topic(source, 1)
    kafka.create_topic(letters, 1)
    kafka.produce(source, [(0, None, b"value", ())])
    pattern = f"^posix-{group.topic}-[[:digit:]]$"
    member = group.join("first", Dependency(), topics=[pattern], dead_letters=letters)
    with pytest.raises(ConfigurationError, match=f"matches {letters}"):
        member.result()
    assert [] == group.attempts()


def _taken_away(group: Scene, partition: Partition) -> bool:
    gone = group.emitted(events.Revoked) + group.emitted(events.Lost)
    return any(partition in event.partitions for event in gone)


def _assigned(group: Scene, partition: Partition) -> bool:
    return any(partition in event.partitions for event in group.emitted(events.Assigned))
