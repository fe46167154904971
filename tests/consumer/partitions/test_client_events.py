"""A partition's state and a commit's answer through rebalances."""

import pytest
from confluent_kafka import KafkaError, KafkaException

from linear_retry import BrokerError, ConfigurationError, events
from linear_retry.consumer.partitions.client_events import (
    NewRetryTopics,
    OtherGroupsRetries,
    Rebalance,
)
from linear_retry.consumer.partitions.read_ahead import LARGEST_BATCH
from linear_retry.events import PassedOver, Stopped
from linear_retry.kafka import Message
from tests.consumer.joined_parts import Joined

_P0, _P1 = ("orders", 0), ("orders", 1)


class _Scene:
    """A member of a KIP-848 group."""

    def __init__(self) -> None:
        self.joined = Joined({"group.protocol": "consumer"})
        self.rebalance = Rebalance(
            *(self.joined.flow_control, self.joined.commits, self.joined.notes, self.joined.errors),
            frozenset({"orders.dlq"}),
            self.joined.emit,
        )


def test_nothing_to_commit_is_no_refusal() -> None:
    """librdkafka answers a commit of nothing new with `_NO_OFFSET`: neither said nor raised, where
    any other refusal that no repetition fixes is both."""
    scene = _Scene()
    scene.rebalance.commit_failed(KafkaError(KafkaError._NO_OFFSET, "nothing"), (_P0,))
    assert [] == scene.joined.happened
    with pytest.raises(BrokerError):
        scene.rebalance.commit_failed(
            KafkaError(KafkaError.OFFSET_METADATA_TOO_LARGE, "never"), (_P0,)
        )
    assert [events.CommitFailed] == list(map(type, scene.joined.happened))


def test_a_loss_says_what_is_known() -> None:
    """Not who has the partitions now: the brokers may be away, and nobody else in the group. The
    bug: the only member said that the group had given them to other members."""
    scene = _Scene()
    scene.joined.own(_P0)
    scene.rebalance.lost([_P0])
    (lost,) = scene.joined.happened
    assert isinstance(lost, events.Lost)
    assert "did not hear from this member" in lost.reason
    assert "other members" not in lost.reason


def test_a_topic_of_our_own() -> None:
    """A pattern may match it, or it was made later: consumed, its letters would die again."""
    scene = _Scene()
    with pytest.raises(ConfigurationError, match=r"orders\.dlq"):
        scene.rebalance.assigned([_P0, ("orders.dlq", 0)])
    assert () == scene.joined.assignment.partitions


def test_a_retry_topic_is_assigned(caplog: pytest.LogCaptureFixture) -> None:
    """Created since the start, and matched by a pattern: it is read, and warned of."""
    joined = Joined()
    rebalance = Rebalance(
        flow_control=joined.flow_control,
        commits=joined.commits,
        notes=joined.notes,
        errors=joined.errors,
        own_topics=frozenset(),
        emit=joined.emit,
        new_retry_topics=NewRetryTopics(["^orders"]),
    )
    rebalance.assigned([_P0, ("orders.retry.5m", 0)])
    assert _P0 in joined.assignment
    (said,) = caplog.messages
    assert said.startswith("orders.retry.5m has the name of a retry topic")


def test_the_first_batch_after_an_assignment() -> None:
    """Has one message: members come and go one after another, and what is read is fetched again."""
    scene = _Scene()
    for _ in range(8):
        scene.joined.read_ahead.note_speed(LARGEST_BATCH, 0.0)
    scene.rebalance.assigned([_P0])
    message = Message(topic="orders", partition=0, offset=0)
    scene.joined.librdkafka.answers |= {"poll": message, "consume": []}
    assert [message] == scene.joined.read_ahead.read(1.0)
    assert "consume" not in scene.joined.librdkafka.names


def test_a_partition_that_comes_back() -> None:
    """With no revoke in between, as a client may tell it that was out: nothing that was known of it
    is taken for granted, as another may have gone on, or back."""
    scene = _Scene()
    scene.rebalance.assigned([_P0, _P1])
    scene.joined.offsets.done({_P0: 5, _P1: 7})
    scene.rebalance.assigned([_P0])
    assert {_P0: None, _P1: 7} == scene.joined.offsets.starts()
    assert {_P1: 7} == scene.joined.offsets.uncommitted()


def test_at_a_loss_nothing_is_committed() -> None:
    """Another member may have it already."""
    scene = _Scene()
    scene.rebalance.assigned([_P0])
    scene.joined.offsets.done({_P0: 5})
    scene.rebalance.lost([_P0])
    assert "commit" not in scene.joined.librdkafka.names


def test_what_is_gone_already_is_lost_after_it_was_assigned() -> None:
    """The bug: where librdkafka refused to resume what it had just been given, `Lost` came before
    `Assigned`, and whoever followed the events took it for ours for ever."""
    scene = _Scene()
    scene.joined.librdkafka.answers["assignment"] = []
    scene.joined.librdkafka.answers["resume"] = KafkaException(KafkaError(KafkaError._STATE))
    scene.rebalance.assigned([_P0])
    assert [events.Assigned, events.Lost] == list(map(type, scene.joined.happened))


def test_retries_of_another_group(caplog: pytest.LogCaptureFixture) -> None:
    """A retry line with another `group.id` than its live line passed over everything: thousands of
    lines at INFO, and none that named both groups."""
    listener = OtherGroupsRetries("billing-retries")
    listener(Stopped(left_group=True))
    for offset in (7, 8):
        listener(PassedOver("orders.retry.5m", 0, offset, retry_group_id="billing"))
    (said,) = caplog.messages
    for part in ("group billing-retries ", "orders.retry.5m[0]@7 of group billing:"):
        assert part in said


def test_a_retry_topic_that_comes_to_match(caplog: pytest.LogCaptureFixture) -> None:
    """Another group created its retry topics, and `^orders` read them as new messages without a
    word. One that is named is meant."""
    warner = NewRetryTopics(["^orders", "named.retry.5m"])
    for topic in ("orders", "named.retry.5m", "orders.retry.5m", "orders.retry.5m"):
        warner.note([topic, topic])
    (said,) = caplog.messages
    assert said.startswith("orders.retry.5m has the name of a retry topic")
