"""No commit is overtaken by a later one."""

from itertools import pairwise

import pytest
from confluent_kafka import Consumer, KafkaError, TopicPartition

from linear_retry.consumer.partitions.offsets import COMMIT_EVERY_S, UNANSWERED_FOR_S
from linear_retry.testing import EmbeddedKafka
from tests.consumer.group import PROTOCOL_KEYS
from tests.consumer.joined_parts import Joined
from tests.kafka_operations import wait_until

COORDINATOR_LOADS = KafkaError.COORDINATOR_LOAD_IN_PROGRESS
_P0, _P1 = ("orders", 0), ("orders", 1)


def _sent(joined: Joined) -> list[object]:
    return [given[0] for name, given in joined.librdkafka.calls if name == "commit"]


def test_what_is_not_answered_is_not_followed_by_another() -> None:
    """Other partitions do not wait for it; with the answer, what is done since is sent."""
    joined = Joined()
    commits = joined.commits
    joined.own(_P0, _P1)
    for done in ({_P0: 5}, {_P0: 6, _P1: 1}):
        joined.offsets.done(done)
        commits.send()
    assert [[("orders", 0, 5)], [("orders", 1, 1)]] == _sent(joined)
    joined.acknowledge()
    commits.send()
    assert [("orders", 0, 6)] == _sent(joined)[-1]


def test_an_answer_that_never_comes_is_not_waited_for_for_ever() -> None:
    """After a minute it is taken for lost: a crash would repeat more and more."""
    joined = Joined()
    commits = joined.commits
    joined.own(_P0, done=5)
    sent_at_s: list[float] = []
    for _ in range(int(3 * UNANSWERED_FOR_S)):
        if commits.due_at_s <= joined.clock.now_s():
            commits.send()
        sent_at_s += [joined.clock.now_s()] * (len(_sent(joined)) - len(sent_at_s))
        joined.clock.advance(COMMIT_EVERY_S)
    gaps_s = [later - before for before, later in pairwise(sent_at_s)]
    assert [UNANSWERED_FOR_S] * 2 == gaps_s


@pytest.mark.parametrize("protocol", PROTOCOL_KEYS.values(), ids=PROTOCOL_KEYS)
def test_librdkafka_lets_a_retried_commit_undo_a_later_one(protocol: dict[str, str]) -> None:
    """What all this is for. Should this fail some day, it is not needed any more."""
    answered: list[int] = []
    config = {"group.id": "billing", "enable.auto.commit": False, "log_level": 0}
    with EmbeddedKafka() as kafka:
        kafka.create_topic("orders")
        consumer = Consumer(
            config
            | protocol
            | {
                "bootstrap.servers": kafka.bootstrap,
                "on_commit": lambda _, places: answered.append(places[0].offset),
            }
        )
        consumer.subscribe(["orders"])
        wait_until(lambda: consumer.poll(0.1) or consumer.assignment(), "it has the partition")
        kafka.fail("OffsetCommit", COORDINATOR_LOADS)
        for offset in (4, 9):
            consumer.commit(offsets=[TopicPartition("orders", 0, offset)], asynchronous=True)
        wait_until(lambda: consumer.poll(0.1) or len(answered) == 2, "both are answered")
        assert ([9, 4], {_P0: 4}) == (answered, kafka.committed("billing", "orders"))
        consumer.close()
