"""A scheduler that runs while its state is copied loses nothing by it."""

from typing import cast

import pytest
from pyspark.sql import SparkSession

from linear_retry.errors import UsageError
from linear_retry.spark.ingestion.sources import find_sources
from linear_retry.spark.scheduler import draining
from linear_retry.spark.scheduler.checkpoint import Checkpoint, Marker
from tests.conftest import TopicFactory
from tests.real_kafka import RealKafka

_SPARK = cast(SparkSession, None)


class _InMemory(Checkpoint):
    """A checkpoint without messages, whose first micro-batch is committed when it is marked."""

    def __init__(self, path: str, marker: Marker | None, *, commits: bool = True) -> None:
        super().__init__(_SPARK, path)
        self.written = marker
        self._commits, self._looks = commits, 0

    def marker(self) -> Marker | None:
        return self.written

    def write(self, marker: Marker) -> None:
        self.written = marker
        self._looks = 0

    def last_planned(self) -> int | None:
        return None

    def last_batch(self) -> int | None:
        """None, until it is asked behind the copy, which asks once."""
        if self.written is None or self.written.ended is None or not self._commits:
            return None
        self._looks += 1
        return None if self._looks < 3 else 0

    def end_offsets(self, topic: str) -> dict[str, int]:
        return {}


@pytest.mark.broker
def test_it_is_begun_again(kafka: RealKafka, topic: TopicFactory) -> None:
    """Drain and resize say so, and the new checkpoint is not to be used: what the micro-batch has
    read would be in neither."""
    name, letters = topic(), topic()
    config = {"bootstrap.servers": kafka.bootstrap}
    (source,) = find_sources(config, [name])
    marker = Marker(topic=name, topic_id=source.topic_id, partitions=2)
    said = "a scheduler has run on it meanwhile"
    old, new = _InMemory("old", marker), _InMemory("new", None)
    with pytest.raises(UsageError, match=said):
        draining.resize(_SPARK, config, name, old, new, 3, quiet_s=0)
    assert new.written is not None
    assert new.written.ended is not None
    with pytest.raises(UsageError, match=said):
        draining.drain(_SPARK, config, name, _InMemory("old", marker), letters, quiet_s=0)
    quiet = _InMemory("old", old.written, commits=False)
    assert 0 == draining.resize(_SPARK, config, name, quiet, new, 3, quiet_s=0)
    assert Marker(topic=name, topic_id=source.topic_id, partitions=3) == new.written


@pytest.mark.broker
def test_what_is_not_read_is_not_left_behind(kafka: RealKafka, topic: TopicFactory) -> None:
    """A drain ended well with records unread, which only the whole topic sent again would bring:
    it is refused before it writes anything, and can be begun again."""
    name, letters = topic(), topic()
    config = {"bootstrap.servers": kafka.bootstrap}
    (source,) = find_sources(config, [name])
    marker = Marker(topic=name, topic_id=source.topic_id, partitions=2)
    kafka.produce(name, [(0, b"key", b"value", ())])
    checkpoint = _InMemory("old", marker, commits=False)
    with pytest.raises(UsageError, match=f"{name}: 1 of its records are not read yet"):
        draining.drain(_SPARK, config, name, checkpoint, letters, quiet_s=0)
    assert marker == checkpoint.written
    for _ in range(2):  # one that was begun goes on, whatever has come since
        done = draining.drain(
            _SPARK, config, name, checkpoint, letters, leaves_unread=True, quiet_s=0
        )
        assert draining.Drained(0, 1) == done
