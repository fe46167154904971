"""A broker refuses for want of rights."""

from collections.abc import Iterator
from typing import Any

import pytest
from confluent_kafka.admin import AclOperation, ResourceType  # type: ignore[attr-defined]  # exported by import only

from linear_retry import BrokerError, ConfigurationError, DeadLetters, Event, LinearConsumer, events
from linear_retry.kafka import Message
from tests.dlq.guarded_kafka import GuardedKafka

pytestmark = pytest.mark.broker

_READ, _WRITE = AclOperation.READ, AclOperation.WRITE
_TOPIC, _GROUP, _CLUSTER = ResourceType.TOPIC, ResourceType.GROUP, ResourceType.BROKER


@pytest.fixture(scope="module")
def guarded(tmp_path_factory: pytest.TempPathFactory) -> Iterator[GuardedKafka]:
    kafka = GuardedKafka(tmp_path_factory.mktemp("guarded") / "kafka")
    with kafka:
        for name in ("orders", "orders.dlq", "unread", "hidden"):
            kafka.create_topic(name)
        kafka.produce("orders", [(0, b"key", b"value", [])] * 3)
        for name in ("orders", "orders.dlq"):
            kafka.allow(_TOPIC, name, _READ)
        kafka.allow(_TOPIC, "orders.dlq", _WRITE)
        kafka.deny(_TOPIC, "unread", _READ)
        kafka.allow(_TOPIC, "unread", AclOperation.DESCRIBE)
        kafka.deny(_TOPIC, "hidden", AclOperation.DESCRIBE)
        kafka.deny(_GROUP, "forbidden", AclOperation.ALL)
        yield kafka


def _consumer(
    kafka: GuardedKafka, source: str = "orders", group: str = "billing", **options: Any
) -> LinearConsumer:
    choices: dict[str, Any] = {"strategy": [1], "transient": OSError, "dead_letters": "orders.dlq"}
    keys = kafka.keys("reader") | {"group.id": group, "session.timeout.ms": 6000}
    return LinearConsumer(keys, [source], **choices | options)


def _ending(consumer: LinearConsumer) -> str:
    with consumer, pytest.raises((BrokerError, ConfigurationError)) as caught:
        consumer.run(_refuse)
    return str(caught.value)


def _refuse(_: Message) -> None:
    raise ValueError("refused")


@pytest.mark.parametrize("transactional", [False, True])
def test_no_right_to_write_letters(guarded: GuardedKafka, transactional: bool) -> None:
    """With Describe and without Write `run` died of a raw KafkaException a second after its start,
    though every message succeeded: it ends before it joins, and says what to ask for."""
    rules = ((_TOPIC, "orders.dlq", _WRITE), (_CLUSTER, "kafka-cluster", AclOperation.ALL))
    for rule in rules:
        guarded.deny(*rule)
    try:
        letters = DeadLetters("orders.dlq", transactional=transactional)
        text = _ending(_consumer(guarded, dead_letters=letters))
    finally:
        for rule in rules:
            guarded.lift(*rule)
    sentence = (
        "this user has no permission to WRITE topic orders.dlq; give it WRITE and DESCRIBE on it"
    )
    assert sentence == text


def test_no_right_to_read(guarded: GuardedKafka) -> None:
    """Reported before the group is joined, with the topic's name."""
    sentence = "this user has no permission to READ topic unread; give it READ and DESCRIBE on it"
    assert sentence == _ending(_consumer(guarded, "unread"))


def test_a_topic_that_is_hidden(guarded: GuardedKafka) -> None:
    """Without Describe nobody can know whether it is missing: both are reported."""
    text = _ending(_consumer(guarded, "hidden"))
    assert "no such topic: hidden; create it" in text
    assert "give it DESCRIBE on the topic" in text


def test_a_group_that_is_forbidden(guarded: GuardedKafka) -> None:
    """The group and the right are named."""
    text = _ending(_consumer(guarded, group="forbidden"))
    assert "GROUP_AUTHORIZATION_FAILED" in text
    assert text.endswith("give this user READ on group forbidden")


@pytest.mark.parametrize("everywhere", [False, True], ids=["this topic", "every topic"])
def test_a_right_that_is_taken_away(guarded: GuardedKafka, everywhere: bool) -> None:
    """The first message's letter cannot be written: it stands still and says so, and goes on when
    the right is back. Without any right to write the idempotent producer is refused as well."""
    rules = [(_TOPIC, "orders.dlq", _WRITE)]
    if everywhere:
        rules.append((_CLUSTER, "kafka-cluster", AclOperation.ALL))
    failed: list[events.DeadLetterFailed] = []
    dead_lettered: list[events.DeadLettered] = []

    def on_event(event: Event) -> None:
        match event:
            case events.Assigned() if event.partitions:
                for rule in rules:
                    guarded.deny(*rule)
            case events.DeadLetterFailed():
                failed.append(event)
                if len(failed) == 2:
                    for rule in rules:
                        guarded.lift(*rule)
            case events.DeadLettered():
                dead_lettered.append(event)
                if len(dead_lettered) == 3:
                    consumer.stop()

    consumer = _consumer(guarded, group=f"taken-{everywhere}", listeners=[on_event])
    with consumer:
        consumer.run(_refuse)
    assert [0, 1, 2] == [event.offset for event in dead_lettered]
    assert {0} == {event.offset for event in failed}
    emitted = {event.error.split(":")[0] for event in failed}
    assert emitted <= {"TOPIC_AUTHORIZATION_FAILED", "CLUSTER_AUTHORIZATION_FAILED"}


@pytest.mark.parametrize(
    ("keys", "remedy"),
    [
        ({"sasl.password": "guessed"}, "the login is refused: check the sasl.* keys"),
        ({"security.protocol": "SASL_PLAINTEXT"}, "it hangs up on this kind of client"),
        ({"ssl.ca.location": "probe"}, "the broker's certificate is not trusted"),
    ],
    ids=["password", "plaintext", "certificate"],
)
def test_why_no_broker_answers(guarded: GuardedKafka, keys: dict[str, str], remedy: str) -> None:
    """It was "no broker answered", whatever the cause: now that stands there, and no password."""
    config = guarded.keys("reader") | {"group.id": "billing"} | keys
    if config["ssl.ca.location"] == "probe":
        del config["ssl.ca.location"]
    consumer = LinearConsumer(
        config,
        ["orders"],
        strategy=[1],
        transient=OSError,
        dead_letters="orders.dlq",
        start_timeout_s=3.0,
    )
    (line,) = _ending(consumer).splitlines()
    assert remedy in line
    assert "guessed" not in line
