"""What an owner before has done behind its committed offset is not done again."""

import pytest
from confluent_kafka import Consumer, Message, TopicPartition

from linear_retry import DeadLetters, events
from linear_retry.records.commit_note import CommitNote, Digests, Undone, read_note, write_note
from tests.kafka_operations import wait_until
from tests.scenarios.conftest import SceneFactory
from tests.scenarios.handlers import OutageError
from tests.scenarios.protocols import each_protocol
from tests.scenarios.scene import Scene

pytestmark = pytest.mark.broker


def _commit(group: Scene, text: str) -> None:
    """As a tool commits an offset, or a release that handles keys side by side."""
    client = Consumer(group.kafka.client_settings(**{"group.id": group.group}))
    try:
        client.commit(offsets=[TopicPartition(group.topic, 0, 1, text)], asynchronous=False)
    finally:
        client.close()


def _note(group: Scene) -> str:
    client = Consumer(group.kafka.client_settings(**{"group.id": group.group}))
    try:
        (found,) = client.committed([TopicPartition(group.topic, 0)], timeout=30)
        return found.metadata or ""
    finally:
        client.close()


@pytest.mark.parametrize("transactional", [False, True], ids=["plain", "transactional"])
@each_protocol
def test_it_is_passed_over(
    scene: SceneFactory, protocol: dict[str, str], transactional: bool
) -> None:
    """In every protocol; and the rest of the note goes on with each commit, in the transaction of
    a dead letter too, until all of it is done."""
    group = scene(config=protocol, strategy=[1.0])
    group.write([(0, key, b"value", ()) for key in (b"a", b"b", b"c", b"b", b"c", b"b", b"a")])
    digests, place = Digests(group.group), (group.topic, 0)
    undone = tuple(
        Undone("key", offset, digests.of_key(key)) for offset, key in ((1, b"b"), (4, b"c"))
    )
    _commit(group, write_note(CommitNote(1, 6, undone), group.group, place))
    handled: list[int | None] = []

    def handle(message: Message) -> None:
        if message.offset() == 1:
            raise ValueError(message)
        if message.offset() == 3 and not group.emitted(events.CircuitOpened):
            raise OutageError
        handled.append(message.offset())

    letters = DeadLetters(group.letters, transactional=transactional)
    first = group.join("first", handle, dead_letters=letters)
    group.wait_for(events.CircuitOpened)
    first.stop()
    left = read_note(_note(group), group.group, place)
    assert left is not None
    assert (3, 6, undone[1]) == (left.base, left.frontier, left.undone[-1])
    assert left.undone[0].failures is not None
    group.join("second", handle, dead_letters=letters)
    wait_until(lambda: group.committed() == {place: 7}, "all is committed", group.story)
    assert [3, 4, 5, 6] == handled
    assert [1] == [letter.original_offset for letter in group.dead_letters()]
    assert "" == _note(group)
