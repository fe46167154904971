"""The journal of a member on a real broker, and of one that was killed."""

import pytest

from linear_retry import Journal, events
from linear_retry.journal.entry import Entry, read_entry
from linear_retry.journal.group_state import GroupStates
from tests.conftest import TopicFactory
from tests.kafka_operations import KafkaOperations, wait_until
from tests.real_kafka import RealKafka
from tests.scenarios.conftest import SceneFactory
from tests.scenarios.handlers import Dependency

pytestmark = pytest.mark.broker


def _entries(kafka: KafkaOperations, journal: str) -> list[Entry]:
    """All of them, by partition and offset; every record is one."""
    read = [read_entry(message.value()) for message in kafka.read(journal)]
    entries = [entry for entry in read if isinstance(entry, Entry)]
    assert len(read) == len(entries)
    return entries


def _kinds(entries: list[Entry]) -> list[str]:
    return [type(entry.event).__name__ for entry in entries]


def test_a_killed_member_is_seen_as_it_was(
    kafka: RealKafka, scene: SceneFactory, topic: TopicFactory
) -> None:
    """Its last entry says that it is open, until when, and for what; no `Stopped` ever comes."""
    group, journal = scene(strategy=[60]), topic()
    group.produce(5)
    static = {"group.instance.id": "pod-1"}
    killed = group.spawn("first", {"0@2": ["outage"]}, config=static, journals=[journal])
    opened = group.wait_for(events.CircuitOpened)
    wait_until(lambda: "CircuitOpened" in _kinds(_entries(kafka, journal)), "it is written")
    killed.kill()
    entries = _entries(kafka, journal)
    last = entries[-1]
    assert ["Assigned", "CircuitOpened"] == _kinds(entries)
    assert (group.group, "pod-1") == (last.group, last.member)
    assert opened == last.event


def test_brokers_that_are_away_for_a_while(own_kafka: RealKafka, own_scene: SceneFactory) -> None:
    """What was said meanwhile is written when they are back, and nothing is missing.

    librdkafka may put one entry before those that waited for a broker that has just come back and
    does not know its topics yet, so readers go by the number.
    """
    own_kafka.create_topic("journal")
    group, written = own_scene(strategy=[0.2] * 1000), Journal("journal")
    group.produce(5)
    outage = Dependency()
    outage.down = True
    member = group.join("first", outage, listeners=[written])
    group.wait_for(events.CircuitOpened)
    own_kafka.kill()
    received = len(group.emitted(events.ProbeFailed))
    group.wait_for(events.ProbeFailed, received + 5)
    own_kafka.start()
    outage.down = False
    group.wait_until_done()
    member.stop()
    entries = _entries(own_kafka, "journal")
    numbers = {entry.sequence for entry in entries}
    assert set(range(1, max(numbers) + 1)) == numbers
    assert 0 == written.dropped
    states = GroupStates()
    for entry in entries:
        states.take(entry)
    view = states.view(group.group)
    assert (0, ["stopped"]) == (len(view.circuits), [each.state for each in view.members])
    assert [] == group.violations()
