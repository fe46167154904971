"""Committed offsets are asked for by a client that never joins the group."""

import threading
from collections.abc import Callable
from typing import Any

from confluent_kafka import KafkaError, KafkaException, TopicPartition

from linear_retry.kafka.consumer.committed import Committed
from tests.kafka_operations import wait_until
from tests.patience import PATIENCE_S

_P0, _P1 = ("orders", 0), ("orders", 1)


class _Consumer:
    """Answers what it is told to; whoever closes it in the midst of a question would crash."""

    def __init__(self, config: dict[str, Any]) -> None:
        self.config = config
        self.offsets: dict[int, int] = {}
        self.problem: KafkaException | None = None
        self.meanwhile: Callable[[], object] = lambda: None
        self.polls = self.closed = 0
        self._asked = False

    def poll(self, _: float) -> None:
        self.polls += 1

    def committed(self, asked: list[TopicPartition], timeout: float) -> list[TopicPartition]:
        self._asked = True
        self.meanwhile()
        self._asked = False
        if self.problem is not None:
            raise self.problem
        return [
            TopicPartition(one.topic, one.partition, self.offsets.get(one.partition, -1001))
            for one in asked
        ]

    def close(self) -> None:
        assert not self._asked, "closed in the midst of a question"
        self.closed += 1


class _Scene:
    def __init__(self) -> None:
        self.made: list[_Consumer] = []
        self.committed = Committed({"bootstrap.servers": "b:1"}, "billing", self._make)

    def ask(self) -> dict[Any, int] | None:
        return self.committed.ask([_P0, _P1], 0.1)

    def _make(self, config: dict[str, Any]) -> _Consumer:
        self.made.append(_Consumer(config))
        return self.made[-1]


def test_what_is_committed_is_reported() -> None:
    """Partitions where nothing is committed are left out."""
    scene = _Scene()
    assert {} == scene.ask()
    scene.made[0].offsets = {1: 42}
    assert {_P1: 42} == scene.ask()


def test_one_handle_that_disturbs_nobody() -> None:
    """Made at the first question and kept; it commits nothing, and waits for no transaction."""
    scene = _Scene()
    assert [] == scene.made
    scene.ask()
    scene.ask()
    (consumer,) = scene.made
    assert ("billing", False) == (
        consumer.config["group.id"],
        consumer.config["enable.auto.commit"],
    )
    assert "read_uncommitted" == consumer.config["isolation.level"]
    assert 2 == consumer.polls


def test_after_no_answer_a_new_handle_is_asked() -> None:
    """A refusal is none, and not an empty one: nothing is known to be committed then. The old
    handle may have lost sight of all brokers for good (librdkafka #5301)."""
    scene = _Scene()
    scene.ask()
    scene.made[0].problem = KafkaException(KafkaError(KafkaError._TRANSPORT))
    assert None is scene.ask()
    assert {} == scene.ask()
    first, second = scene.made
    wait_until(lambda: first.closed == 1, "the old one is closed, by a thread of its own")
    assert 0 == second.closed


def test_closed_it_makes_no_handle() -> None:
    """And closing again is nothing."""
    scene = _Scene()
    scene.ask()
    scene.committed.close()
    scene.committed.close()
    assert None is scene.ask()
    assert [1] == [one.closed for one in scene.made]


def test_a_handle_in_use_is_closed_by_whoever_uses_it() -> None:
    """Closed under a call, librdkafka would go on in memory that is freed; and close waits not."""
    scene = _Scene()
    scene.ask()

    def close_elsewhere() -> None:
        thread = threading.Thread(target=scene.committed.close)
        thread.start()
        thread.join(PATIENCE_S)
        assert not thread.is_alive()

    scene.made[0].meanwhile = close_elsewhere
    assert {} == scene.ask()
    assert [1] == [one.closed for one in scene.made]
