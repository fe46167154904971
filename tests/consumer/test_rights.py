"""Missing rights end the start, before the group is joined."""

from collections.abc import Mapping
from typing import Any

import pytest
from confluent_kafka import KafkaError

from linear_retry import BrokerError, ConfigurationError, DeadLetters, LinearConsumer, events
from linear_retry.consumer.settings.consumer_config import Dependencies
from linear_retry.kafka import Message
from tests.consumer.group import GROUP, LETTERS, TOPIC, FakeGroup, consumer_on
from tests.consumer.misbehaviours.misbehaving import emitted, ends_well, reading, until
from tests.fake.admin import FakeAdmin
from tests.fake.cluster import FakeKafka

_ALL = frozenset({"READ", "WRITE", "DESCRIBE"})


def _forbid(fake: FakeKafka, topic: str, right: str) -> None:
    fake.topics[topic].rights = _ALL - {right}


def _refusal(fake: FakeKafka) -> str:
    with consumer_on(fake) as consumer, pytest.raises(BrokerError) as caught:
        consumer.run(_nothing)
    assert "subscribe" not in [name for _, _, name, _ in fake.log]
    return str(caught.value)


def _nothing(_: Message) -> None:
    """Never called here."""


def test_no_right_to_write_letters_ends_the_start(fake: FakeKafka) -> None:
    """It was found out by the first letter, in the midst of an incident."""
    _forbid(fake, LETTERS, "WRITE")
    expected = (
        f"this user has no permission to WRITE topic {LETTERS}; give it WRITE and DESCRIBE on it"
    )
    assert expected == _refusal(fake)


def test_all_that_is_forbidden_is_named_at_once(fake: FakeKafka) -> None:
    """A source that cannot be read, and letters that cannot be written: a line for each."""
    _forbid(fake, TOPIC, "READ")
    _forbid(fake, LETTERS, "WRITE")
    named = [line.split(";")[0] for line in _refusal(fake).splitlines()]
    read, write = f"READ topic {TOPIC}", f"WRITE topic {LETTERS}"
    assert [
        f"this user has no permission to {read}",
        f"this user has no permission to {write}",
    ] == named


@pytest.mark.parametrize("silence", ["unsaid", "unanswered"])
def test_brokers_that_do_not_say_are_trusted(fake: FakeKafka, silence: str) -> None:
    """Old ones, and those without an answer in 5 s: the start does not hang on it."""
    fake.faults.admin_answer_s = None if silence == "unanswered" else 0.0
    began_s = fake.clock.now_s()
    handled: list[int | None] = []
    consumer = consumer_on(fake)

    def handle(message: Message) -> None:
        handled.append(message.offset())
        consumer.stop()

    consumer.run(handle)
    consumer.close()
    assert 1 == len(handled)
    assert fake.clock.now_s() - began_s < 15


def test_a_right_that_is_taken_away_later_stops_the_line() -> None:
    """The idempotent producer's refusal, which is fatal, ended the consumer though every message
    succeeded: it stands still from the first letter on, and says why, until the right is back."""
    group = reading("eager", scope="partition")
    group.dependency.refuses = {(0, 1)}
    (member,) = group.members
    refused = KafkaError(KafkaError.CLUSTER_AUTHORIZATION_FAILED, "Cluster authorization", True)
    group.fake.producers[-1].fail(refused)
    group.turn(3)
    group.fake.faults.break_producer(refused, 2)
    until(group, lambda: len(emitted(member, events.DeadLetterFailed)) == 2)
    errors = {event.error for event in emitted(member, events.DeadLetterFailed)}
    assert {"CLUSTER_AUTHORIZATION_FAILED: Cluster authorization"} == errors
    ends_well(group)


def _across(here: FakeKafka, there: FakeKafka) -> LinearConsumer:
    def cluster(config: dict[str, Any]) -> FakeKafka:
        return there if config["bootstrap.servers"] == "there:9092" else here

    dependencies = Dependencies(
        here.consumer,
        lambda config: cluster(config).producer(config),
        lambda config: cluster(config).admin(config),
        here.clock,
        lambda: 0.0,
    )
    return LinearConsumer(
        {"bootstrap.servers": "here:9092", "group.id": GROUP},
        [TOPIC],
        strategy=[1],
        transient=OSError,
        dead_letters=DeadLetters(LETTERS, config={"bootstrap.servers": "there:9092"}),
        _dependencies=dependencies,
    )


def test_letters_in_another_cluster_are_looked_for_there(fake: FakeKafka) -> None:
    """A topic of that name in the consumer's own cluster was taken for it: the first letter found
    none, or as many partitions as the wrong one has."""
    there = FakeKafka(fake.clock)
    with _across(fake, there) as consumer, pytest.raises(ConfigurationError) as caught:
        consumer.run(_nothing)
    assert f"no such topic: {LETTERS}; create it" in str(caught.value)
    there.create_topic(LETTERS, 1)
    del fake.topics[LETTERS]
    consumer = _across(fake, there)

    def refuse(message: Message) -> None:
        if (message.partition(), message.offset()) == (1, 0):
            consumer.stop()
            raise ValueError

    consumer.run(refuse)
    consumer.close()
    (log,) = there.topics[LETTERS].partitions
    assert 1 == len(log.records)


def test_another_cluster_that_is_down_ends_the_start(fake: FakeKafka) -> None:
    """Whose brokers do not answer is reported; the consumer's own do."""
    there = FakeKafka(fake.clock)
    there.faults.brokers_down = True
    with (
        _across(fake, there) as consumer,
        pytest.raises(BrokerError, match="no broker of there:9092 answered within 30 s"),
    ):
        consumer.run(_nothing)


def test_what_is_reported_once_is_received_at_the_start(fake: FakeKafka) -> None:
    """librdkafka looks for the group at once, and tells its refusal once: taken out of its queue by
    a poll that waited for something else, the consumer stood outside its group for ever."""
    consumer = consumer_on(fake)
    fake.faults.admin_answer_s = None
    refused = KafkaError(KafkaError.GROUP_AUTHORIZATION_FAILED, "Group authorization failed")
    fake.clock.at(1.0, lambda: fake.consumers[-1].fail(refused))
    with consumer, pytest.raises(BrokerError, match=f"give this user READ on group {GROUP}"):
        consumer.run(_nothing)


class _Handle:
    """An admin client that notes what it is asked."""

    def __init__(self, admin: FakeAdmin) -> None:
        self.asked: set[str] = set()
        self._admin = admin

    def __getattr__(self, name: str) -> Any:
        self.asked.add(name)
        return getattr(self._admin, name)


class _Noting(FakeKafka):
    def __init__(self) -> None:
        super().__init__()
        self.handles: list[_Handle] = []

    def admin(self, config: Mapping[str, Any]) -> Any:
        self.handles.append(_Handle(super().admin(config)))
        return self.handles[-1]


def test_the_handle_that_asked_for_rights_is_asked_nothing_else() -> None:
    """It goes for 15 minutes by the leaders that it has seen: a partition whose broker was down as
    the consumer started stood still, and its watchdog never learnt that it has messages."""
    fake = _Noting()
    FakeGroup(fake=fake, partitions=1).join()
    rights = {"describe_topics"}
    assert [rights] == [each.asked for each in fake.handles if rights & each.asked]
    assert {"describe_configs"} in [each.asked for each in fake.handles]
