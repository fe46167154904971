"""A part of a partition is read a second time, on the fake and the real Kafka."""

from collections.abc import Iterator
from contextlib import closing

import pytest

from linear_retry.kafka.consumer.second_reader import MOST_MESSAGES, Part, SecondReader
from linear_retry.kafka.consumer.settings import consumer_settings
from tests.fake.cluster import FakeKafka
from tests.kafka.test_kafka_contract import Laws, World
from tests.kafka_operations import wait_until


def _until_read(reader: SecondReader, topic: str, offset: int, partition: int = 0) -> Part:
    """Asks, as the consumer's loop does, until something has come."""
    return wait_until(lambda: reader.read((topic, partition), offset), "a part of it")


class TestSecondReader(Laws):
    """The laws. Partition 0 of the topic has five messages, and partition 1 none."""

    @pytest.fixture(params=["range", "cooperative-sticky"])
    def reader(self, world: World, request: pytest.FixtureRequest) -> Iterator[SecondReader]:
        """With the keys of a member of a group."""
        settings = consumer_settings(
            {
                "bootstrap.servers": "only.the:1",
                "group.id": "billing",
                "group.instance.id": "cashier-1",
                "partition.assignment.strategy": request.param,
            }
        )
        keys = {key: at for key, at in settings.config.items() if key != "bootstrap.servers"}
        with closing(SecondReader(keys, world.client)) as found:
            yield found

    def test_from_any_offset(self, world: World, topic: str, reader: SecondReader) -> None:
        """What follows is read on; another place, or partition, can be asked for at any time."""
        part = _until_read(reader, topic, 2)
        assert [2, 3, 4][: len(part.messages)] == [each.offset() for each in part.messages]
        assert (2, 2 + len(part.messages)) == (part.start, part.end)
        end = part.end
        while end < 5:
            end = _until_read(reader, topic, end).end
        world.append(topic, 0, [b"5"])
        assert [5] == [each.offset() for each in _until_read(reader, topic, 5).messages]
        world.append(topic, 1, [b"0"])
        assert [b"0"] == [each.value() for each in _until_read(reader, topic, 0, 1).messages]
        assert 0 == _until_read(reader, topic, 0).messages[0].offset()

    def test_a_part_is_bounded(self, world: World, topic: str, reader: SecondReader) -> None:
        """Whatever is there, so many messages come at once; and nothing once it rests."""
        world.append(topic, 1, [b"x" for _ in range(3 * MOST_MESSAGES)])
        end = 0
        while end < 3 * MOST_MESSAGES:
            part = _until_read(reader, topic, end, 1)
            assert part.end - part.start == len(part.messages) <= MOST_MESSAGES
            end = part.end
        assert reader.is_reading
        reader.rest()
        assert not reader.is_reading

    def test_what_retention_has_removed(
        self, world: World, topic: str, reader: SecondReader
    ) -> None:
        """It is lost, and what follows is read from where the log begins."""
        world.delete_records(topic, 0, 3)
        part = _until_read(reader, topic, 1)
        assert (True, 1, 3, []) == (part.is_lost, part.start, part.end, part.messages)
        assert 3 == _until_read(reader, topic, part.end).messages[0].offset()

    def test_what_is_above_the_end(self, topic: str, reader: SecondReader) -> None:
        """The log was cut below: the reason is given, and it can be asked again."""
        part = _until_read(reader, topic, 9)
        assert (9, 9, False) == (part.start, part.end, part.is_lost)
        assert part.problem
        assert 0 == _until_read(reader, topic, 0).messages[0].offset()


def test_what_is_delivered_again() -> None:
    """It goes back by itself, and nothing comes twice: a message would be handled again."""
    fake = FakeKafka()
    fake.create_topic("orders", 1)
    for _ in range(9):
        fake.append("orders", 0, b"value", None, None)
    fake.faults.few_at_once = 3
    keys = consumer_settings({"bootstrap.servers": "fake:9092", "group.id": "billing"}).config
    with closing(SecondReader(keys, fake.consumer)) as reader:
        offsets = [each.offset() for each in _until_read(reader, "orders", 0).messages]
        fake.faults.rewind(("orders", 0), 2)
        while len(offsets) < 9:
            part = _until_read(reader, "orders", len(offsets))
            offsets += [each.offset() for each in part.messages]
    assert [*range(9)] == offsets
