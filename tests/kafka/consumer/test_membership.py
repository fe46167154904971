"""Membership is seen where no callback tells it."""

from collections.abc import Mapping
from typing import Any

import pytest
from confluent_kafka import TopicPartition

from linear_retry.kafka.consumer.client import Client
from linear_retry.kafka.consumer.membership import member_epoch
from linear_retry.kafka.consumer.settings import consumer_settings
from tests.recording_consumer import RecordingConsumer

_LEAST = {"bootstrap.servers": "localhost:9092", "group.id": "billing"}
_REST = b"billing\0wLYoP3wUSGCCVkeNA/xBMg\0\1"
_OUT, _ASKED, _IN, _LATER = (
    b"CGMDv2:" + epoch + _REST for epoch in (b"\xff" * 4, b"\0" * 4, b"\2\0\0\0", b"\3\0\0\0")
)


@pytest.mark.parametrize(
    ("metadata", "epoch"), [(None, -1), (_OUT, -1), (_ASKED, 0), (_IN, 2), (_LATER, 3)]
)
def test_the_epoch(metadata: bytes | None, epoch: int) -> None:
    """As librdkafka 2.16 wrote it beside a real broker, on a machine that is little-endian."""
    assert epoch == member_epoch(metadata)


@pytest.mark.parametrize("metadata", [b"", b"CGMDv2:\0", b"CGMDv3:\0\0\0\0billing"])
def test_another_form_is_no_reason_to_be_restarted(metadata: bytes) -> None:
    """A later librdkafka may write it otherwise: ready is said too often then, not too rarely."""
    assert member_epoch(metadata) is None
    client, librdkafka, _ = _client("consumer")
    librdkafka.answers |= {"poll": None, "consumer_group_metadata": metadata}
    client.member.note_lost()
    client.poll(0.1)
    assert client.member.has_joined_unheard


class _Told:
    """Hears what a client tells, and does nothing."""

    def __getattr__(self, name: str) -> Any:
        return lambda *_: None


def _client(protocol: str) -> tuple[Client, RecordingConsumer, dict[str, Any]]:
    made: list[RecordingConsumer] = []

    def make(config: Mapping[str, Any]) -> RecordingConsumer:
        made.append(RecordingConsumer(config))
        return made[-1]

    client = Client(consumer_settings(_LEAST | {"group.protocol": protocol}), make)
    client.set_listener(_Told())
    kept: dict[str, Any] = {}
    made[0].answers["subscribe"] = lambda topics, **callbacks: kept.update(callbacks)
    client.subscribe(["orders"])
    return client, made[0], kept


def test_it_is_asked_where_nothing_comes() -> None:
    """In KIP-848 groups, after each poll without a message: out, asked, in."""
    client, librdkafka, _ = _client("consumer")
    seen = [client.member.has_joined_unheard]
    for metadata in (_OUT, _ASKED, _IN):
        librdkafka.answers |= {"poll": None, "consumer_group_metadata": metadata}
        client.poll(0.1)
        seen.append(client.member.has_joined_unheard)
    assert [False, False, False, True] == seen


def test_after_a_loss_only_a_later_epoch_counts() -> None:
    """Where no broker answers, librdkafka goes on as the member that it was."""
    client, librdkafka, callbacks = _client("consumer")
    seen: list[bool] = []
    for metadata in (_IN, _IN, _ASKED, _LATER):
        librdkafka.answers |= {"poll": None, "consumer_group_metadata": metadata}
        if not seen:
            callbacks["on_lost"](None, [TopicPartition("orders", 0)])
        client.poll(0.1)
        seen.append(client.member.has_joined_unheard)
    assert [False, False, False, True] == seen


def test_in_other_groups_it_is_not_asked() -> None:
    """There an assignment is told also where it is empty."""
    client, librdkafka, _ = _client("classic")
    librdkafka.answers["poll"] = None
    client.poll(0.1)
    assert not client.member.has_joined_unheard
    assert "consumer_group_metadata" not in [call[0] for call in librdkafka.calls]


@pytest.mark.parametrize(
    ("metadata", "was"),
    [(None, False), (_OUT, False), (_ASKED, False), (b"new", False), (_IN, True)],
)
def test_whether_it_was_ever_a_member(metadata: bytes | None, was: bool) -> None:
    """Where that is not known it is not said: another client may take its place for it, again and
    again. Lost, it was one all the same."""
    client, librdkafka, kept = _client("consumer")
    librdkafka.answers |= {"poll": None, "consumer_group_metadata": metadata}
    client.poll(0.1)
    client.member.note_lost()
    assert was == client.member.was_member
    kept["on_assign"](librdkafka, [TopicPartition("orders", 0)])
    assert client.member.was_member
    client.renew()
    assert not client.member.was_member
