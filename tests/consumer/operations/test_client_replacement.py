"""A client that cannot go on is replaced, and no other."""

import threading
from collections.abc import Mapping, Sequence

import pytest
from confluent_kafka import KafkaError, Message

from linear_retry import BrokerError, FencedError, LinearConsumer, Strategy, events
from linear_retry.consumer.operations.client_replacement import (
    BrokerWatchdog,
    ClientReplacement,
    InstanceIdWait,
)
from linear_retry.kafka.consumer.client import Client
from linear_retry.kafka.topics.admin import Admin
from linear_retry.scope import Partition
from linear_retry.testing import EmbeddedKafka
from tests.consumer.group import FakeGroup, Protocol
from tests.consumer.joined_parts import Joined
from tests.consumer.misbehaviours.misbehaving import (
    all_protocols,
    begun,
    emitted,
    ends_well,
    reading,
    until,
)
from tests.kafka_operations import wait_until
from tests.patience import PATIENCE_S

_P0: Partition = ("orders", 0)
_REFUSED = "Fatal error: Broker: Invalid request: ConsumerGroupHeartbeat fatal error: Broker: {}"
_INVALID = KafkaError(KafkaError._FATAL, _REFUSED.format("Invalid request"))
_NO_GROUP = KafkaError(KafkaError._FATAL, _REFUSED.format("The group id does not exist"))
_TAKEN = KafkaError(KafkaError._FATAL, _REFUSED.format("instance id is still used"))


class _Scene:
    """One KIP-848 consumer that only records, with one partition, where it `was_member`."""

    def __init__(self, *, was_member: bool = True) -> None:
        self.joined = Joined({"group.protocol": "consumer"})
        self.delivery_filter = self.joined.delivery_filter()
        self.dropped: list[Sequence[Partition]] = []
        self.client_replacement = ClientReplacement(
            *(self.joined.client, self.joined.assignment, self.joined.errors),
            self.dropped.append,
            InstanceIdWait(
                self.joined.settings,
                self.joined.clock.now_s,
                Admin({}, lambda _: self.joined.librdkafka).ask_session_timeout_ms,
                30.0,
                self.joined.emit,
            ),
            self.joined.emit,
        )
        self.joined.client.subscribe(["orders"])
        self.joined.client.member.was_member = was_member
        self.joined.own(*[_P0] * was_member)
        self.first = self.joined.librdkafka

    def on_event(self, error: KafkaError) -> None:
        """A poll has brought it, and the loop looks."""
        self.poll(error)
        self.client_replacement.tick()

    def poll(self, error: KafkaError) -> None:
        self.delivery_filter.accept(
            [Message(topic="orders", partition=0, offset=-1001, error=error)]
        )


def test_the_new_one_is_subscribed_and_the_old_one_closed() -> None:
    """What it had is given up, and that is said before."""
    scene = _Scene()
    scene.client_replacement.replace("it is too old")
    assert "close" in scene.first.names
    assert scene.joined.librdkafka is not scene.first
    assert "subscribe" in scene.joined.librdkafka.names
    assert [(_P0,)] == scene.dropped
    lost, renewed = scene.joined.happened
    assert events.Lost((_P0,), "it is too old") == lost
    assert events.ClientReplaced("it is too old") == renewed


def test_what_the_old_one_reports_afterwards_is_ignored() -> None:
    """Its close calls back, on another thread: nothing of that is about the new one."""
    scene = _Scene()
    scene.client_replacement.replace("it is too old")
    scene.first.config["on_commit"](KafkaError(KafkaError.UNKNOWN_MEMBER_ID), [])
    scene.first.config["error_cb"](KafkaError(KafkaError._FATAL))
    scene.joined.client.callbacks.raise_kept()


def test_a_client_whose_heartbeat_is_refused_is_replaced() -> None:
    """It was in its group and has forgotten to join again: the fault is the client's alone
    (librdkafka #5541). Once it ended the consumer."""
    scene = _Scene()
    scene.on_event(_INVALID)
    assert scene.joined.librdkafka is not scene.first
    assert "it can no longer join" in str(scene.joined.happened[-1])


def test_nothing_is_handled_before_another_is_there() -> None:
    """The poll may be one of those between two messages, or of a wait for a letter."""
    scene = _Scene()
    scene.poll(_INVALID)
    assert scene.joined.librdkafka is scene.first
    assert _P0 not in scene.joined.assignment
    assert events.Lost((_P0,), "the client cannot continue") == scene.joined.happened[-1]


def test_one_that_never_was_a_member_is_not_replaced() -> None:
    """The group refuses it as it is: another would be refused as well, for ever."""
    scene = _Scene(was_member=False)
    with pytest.raises(BrokerError, match="Invalid request"):
        scene.on_event(_INVALID)


def test_the_new_one_has_to_become_a_member_first() -> None:
    """Refused at once, it would be renewed again and again: that the old one was in proves
    nothing."""
    scene = _Scene()
    scene.on_event(_INVALID)
    with pytest.raises(BrokerError, match="Invalid request"):
        scene.on_event(_INVALID)


def test_what_another_client_would_meet_too_ends_it() -> None:
    """Whoever looks after the program has to learn of it."""
    with pytest.raises(FencedError):
        _Scene().on_event(_TAKEN)


def test_a_broker_that_does_not_know_the_group_yet() -> None:
    """It was killed and has just started: `run` ended, with an error for whoever is on call. A
    commit that it refuses for that comes first, or not."""
    scene = _Scene()
    refused = KafkaError(KafkaError.GROUP_ID_NOT_FOUND)
    scene.joined.errors.commit_refused(refused, (_P0,))
    assert events.Lost((_P0,), "no longer a member") == scene.joined.happened[-1]
    scene.on_event(_NO_GROUP)
    assert scene.joined.librdkafka is not scene.first


def _is_refused(group: FakeGroup) -> None:
    """The group counts it out; its next polls say that it is refused, and another joins."""
    (member,) = group.members
    old = member.consumer
    group.fake.refuse(old)
    until(group, lambda: member.consumer is not old)
    group.share([0, 0])


@all_protocols
def test_a_refused_member_comes_back_and_goes_on(protocol: Protocol) -> None:
    """It goes on where it was; what it had read and not handled comes again."""
    group = reading(protocol)
    _is_refused(group)
    ends_well(group)
    (member,) = group.members
    assert 1 == len(emitted(member, events.ClientReplaced))
    assert 1 == len(emitted(member, events.Lost))


@all_protocols
def test_a_commit_is_the_first_to_be_refused(protocol: Protocol) -> None:
    """Its answer says only that the client is done for: nothing is handled until a poll has said
    of what, and the new client is not blamed for it."""
    group = reading(protocol)
    (member,) = group.members
    group.fake.faults.fail_commit(KafkaError._FATAL)
    until(group, lambda: emitted(member, events.CommitFailed))
    before = begun(group)
    _is_refused(group)
    assert before == begun(group)
    ends_well(group)


@all_protocols
def test_the_reason_is_there_when_it_polls_again(protocol: Protocol) -> None:
    """However late that is: two seconds are for the reason to come, and not for whoever is to look.
    It ended as if none had come."""
    group = reading(protocol)
    (member,) = group.members
    group.fake.faults.fail_commit(KafkaError._FATAL)
    until(group, lambda: emitted(member, events.CommitFailed))
    group.fake.refuse(member.consumer)
    group.fake.clock.advance(60)
    group.turn()
    assert 1 == len(emitted(member, events.ClientReplaced))
    group.share([0, 0])
    ends_well(group)


@all_protocols
def test_the_reason_comes_amid_something_else(protocol: Protocol) -> None:
    """While a letter is awaited, which takes some seconds more: then another client takes the
    place. It ended as if no reason had come."""
    group = reading(protocol)
    (member,) = group.members
    group.fake.faults.fail_commit(KafkaError._FATAL)
    until(group, lambda: emitted(member, events.CommitFailed))
    group.fake.refuse(member.consumer)
    member.parts.housekeeping.poll_along()
    group.fake.clock.advance(60)
    group.turn()
    assert 1 == len(emitted(member, events.ClientReplaced))
    group.share([0, 0])
    ends_well(group)


_POLL_S = 1.0


def test_the_handler_was_too_slow_while_the_brokers_were_away(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """librdkafka has to leave, and does so as a partition begins again, or a commit is given up,
    with no broker to tell; with one it does not join again. That ended the consumer: "Invalid
    request". Another client joins, and the message comes once more."""
    # Or what it has is not taken back, and does not begin again.
    monkeypatch.setattr(BrokerWatchdog, "sees", lambda _: True)
    monkeypatch.setattr(Client, "reassign", _surely_anew)
    happened: list[events.Event] = []
    begun, hanging, handled = threading.Event(), threading.Event(), list[bytes | None]()

    def handle(message: Message) -> None:
        begun.set()
        hanging.wait(PATIENCE_S)
        handled.append(message.value())

    with EmbeddedKafka(session_timeout_ms=2000, heartbeat_interval_ms=300) as kafka:
        kafka.create_topic("orders")
        kafka.produce("orders", [b"slow", b"next"])
        with _impatient(kafka, happened.append) as consumer:
            running = threading.Thread(target=consumer.run, args=(handle,))
            running.start()
            begun.wait(PATIENCE_S)
            with kafka.down():
                wait_until(lambda: (consumer.health().polled_s or 0) > 3 * _POLL_S, "it has left")
                hanging.set()
                wait_until(lambda: _emitted(happened, events.PartitionRevived), "it is taken back")
            wait_until(lambda: b"next" in handled, "it has gone on", detail=lambda: str(happened))
            consumer.stop()
            running.join(PATIENCE_S)
    assert [b"slow", b"slow", b"next"] == handled
    assert 1 == len(_emitted(happened, events.ClientReplaced))


_reassign = Client.reassign


def _surely_anew(
    client: Client, partition: Partition, starts: Mapping[Partition, int | None]
) -> None:
    """With nothing assigned for a moment, or librdkafka does not leave.

    It tells itself late that a partition has stopped, so that now and then it has it again by then.
    The second time there is nothing to stop.
    """
    _reassign(client, partition, starts)
    client.assignment()  # answered after all that was said before
    _reassign(client, partition, starts)


def _impatient(kafka: EmbeddedKafka, listener: events.Listener) -> LinearConsumer:
    keys = {"group.protocol": "consumer", "max.poll.interval.ms": int(_POLL_S * 1000)}
    return LinearConsumer(
        {"bootstrap.servers": kafka.bootstrap, "group.id": "billing", **keys, "log_level": 0},
        ["orders"],
        strategy=Strategy([1]),
        transient=OSError,
        on_permanent="stop",
        on_exhausted="stop",
        listeners=[listener],
    )


def _emitted(happened: list[events.Event], kind: type[events.Event]) -> list[events.Event]:
    return [event for event in happened if isinstance(event, kind)]
