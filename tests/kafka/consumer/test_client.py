"""The client passes each call to librdkafka in its right form, and guards each callback."""

import math
from collections import Counter
from collections.abc import Mapping
from typing import Any

import pytest
from confluent_kafka import (
    OFFSET_INVALID,
    OFFSET_STORED,
    KafkaError,
    KafkaException,
    Message,
    TopicPartition,
)
from hypothesis import given
from hypothesis import strategies as st

from linear_retry.errors import BrokerError, ConfigurationError, FencedError
from linear_retry.kafka.consumer.client import BEGINNING, END, Client
from linear_retry.kafka.consumer.fatal_errors import is_retriable_commit, raise_if_fatal
from linear_retry.kafka.consumer.settings import consumer_settings
from linear_retry.kafka.embedded.cluster import EmbeddedKafka
from linear_retry.scope import Partition
from tests.kafka_operations import wait_until
from tests.recording_consumer import RecordingConsumer

_LEAST = {"bootstrap.servers": "localhost:9092", "group.id": "billing"}
_COOPERATIVE = {"partition.assignment.strategy": "cooperative-sticky"}
_P0, _P1 = ("orders", 0), ("orders", 1)
_INVALID = -1001


class _Listener:
    """Notes what is told, and raises where it is asked to."""

    def __init__(self, librdkafka: RecordingConsumer) -> None:
        self.reported: list[tuple[Any, ...]] = []
        self.raises: BaseException | None = None
        self._librdkafka = librdkafka

    def _note(self, *what: Any) -> None:
        self.reported.append(what)
        self._librdkafka.calls.append(("reported", what[0]))
        if self.raises is not None:
            raise self.raises

    def assigned(self, partitions: list[Partition]) -> None:
        self._note("assigned", partitions)

    def revoked(self, partitions: list[Partition]) -> None:
        self._note("revoked", partitions)

    def lost(self, partitions: list[Partition]) -> None:
        self._note("lost", partitions)

    def committed(self, offsets: Mapping[Partition, tuple[int, str]]) -> None:
        self._note("committed", dict(offsets))

    def note_refused(self, partition: Partition, characters: int) -> None:
        self._note("note_refused", partition, characters)

    def commit_failed(self, error: KafkaError, partitions: tuple[Partition, ...]) -> None:
        self._note("commit_failed", error.code(), partitions)

    def client_error(self, error: KafkaError) -> None:
        self._note("client_error", error.code())


class _Scene:
    """A `Client`, the consumer it has made, and who is told."""

    def __init__(
        self, config: Mapping[str, Any] | None = None, *, transactional: bool = False
    ) -> None:
        self.made: list[RecordingConsumer] = []
        settings = consumer_settings(_LEAST | dict(config or {}))
        self.client = Client(settings, self._make, transactional=transactional)
        (self.librdkafka,) = self.made
        self.listener = _Listener(self.librdkafka)
        self.client.set_listener(self.listener)

    def _make(self, config: Mapping[str, Any]) -> RecordingConsumer:
        self.made.append(RecordingConsumer(config))
        return self.made[-1]

    def subscribe(self) -> dict[str, Any]:
        """librdkafka's three callbacks of the group."""
        kept: dict[str, Any] = {}
        self.librdkafka.answers["subscribe"] = lambda topics, **callbacks: kept.update(callbacks)
        self.client.subscribe(["orders"])
        self.librdkafka.calls.clear()
        return kept

    def call(self, name: str, *arguments: Any) -> None:
        """librdkafka calls back from inside a poll."""
        callback = self.librdkafka.config[name]
        self.librdkafka.answers["poll"] = lambda timeout_s: callback(*arguments)
        self.client.poll(0)


def _items(*partitions: Partition) -> list[TopicPartition]:
    return [TopicPartition(*partition) for partition in partitions]


@pytest.mark.parametrize(
    ("asked_s", "given_s"),
    [
        (0.0, 0.001),
        (-1.0, 0.001),
        (-math.inf, 0.001),
        (0.0005, 0.001),
        (0.0011, 0.002),
        (0.25, 0.25),
        (1.0, 1.0),
        (1e10, 1.0),
        (math.inf, 1.0),
    ],
)
def test_a_poll_waits_between_a_millisecond_and_a_second(asked_s: float, given_s: float) -> None:
    """poll(0.0005) would spin, poll(inf) and poll(-1) would block for ever."""
    scene = _Scene()
    scene.client.poll(asked_s)
    assert [("poll", given_s)] == scene.librdkafka.calls


@given(st.floats(0.001, 1.0))
def test_a_poll_is_never_cut_short(asked_s: float) -> None:
    """librdkafka truncates to milliseconds: what is left is what was asked, or one more."""
    scene = _Scene()
    scene.client.poll(asked_s)
    ((_, given_s),) = scene.librdkafka.calls
    assert asked_s * 1000 <= int(given_s * 1000) <= asked_s * 1000 + 1


def test_messages_pass_through() -> None:
    """What librdkafka returns is what is handed on."""
    scene, message = _Scene(), Message(topic="orders", partition=0, offset=1)
    scene.librdkafka.answers |= {"poll": message, "consume": [message]}
    assert message is scene.client.poll(1.0)
    assert [message] == scene.client.consume(7)
    assert ("consume", (7, 0)) == scene.librdkafka.calls[-1]


@pytest.mark.parametrize("error", [LookupError("bug"), KeyboardInterrupt(), SystemExit(1)])
@pytest.mark.parametrize("call", ["poll", "consume"])
def test_what_a_callback_raises_is_raised_after_it(call: str, error: BaseException) -> None:
    """It never leaves the callback, or messages are dropped; the call raises it, once."""
    scene = _Scene()
    scene.listener.raises = error
    callbacks, ended = scene.subscribe(), list[str]()

    def call_back(*_: object) -> None:
        callbacks["on_assign"](None, _items(_P0))
        ended.append("calmly")

    scene.librdkafka.answers[call] = call_back
    with pytest.raises(type(error)) as caught:
        _ = scene.client.poll(1.0) if call == "poll" else scene.client.consume(1)
    assert error is caught.value
    assert ["calmly"] == ended
    scene.client.callbacks.raise_kept()


def test_of_several_exceptions_the_first_is_raised_with_the_others_noted() -> None:
    """Nothing that happened is forgotten."""
    scene, first = _Scene(), LookupError("first")
    callbacks = scene.subscribe()

    def poll(_: float) -> None:
        for error in (first, OSError("second")):
            scene.listener.raises = error
            callbacks["on_lost"](None, _items(_P0))

    scene.librdkafka.answers["poll"] = poll
    with pytest.raises(LookupError) as caught:
        scene.client.poll(1.0)
    assert first is caught.value
    assert ["and in another callback: OSError('second')"] == first.__notes__


def test_what_callbacks_raise_at_the_end_is_for_nobody() -> None:
    """Draining runs them, and keeps nothing."""
    scene = _Scene()
    scene.listener.raises = LookupError("bug")
    callbacks = scene.subscribe()
    scene.librdkafka.answers["poll"] = lambda _: callbacks["on_lost"](None, _items(_P0))
    scene.client.drain(0.1)
    scene.client.callbacks.raise_kept()
    assert [("lost", [_P0])] == scene.listener.reported


def test_disarmed_no_callback_runs() -> None:
    """`close` would run them on a thread that owns nothing; the user's are silent then too."""
    received: list[object] = []
    scene = _Scene({"error_cb": received.append, "stats_cb": received.append})
    callbacks = scene.subscribe()
    scene.client.disarm()
    callbacks["on_revoke"](None, _items(_P0))
    scene.call("error_cb", KafkaError(KafkaError._TRANSPORT))
    scene.call("stats_cb", "{}")
    assert ([], []) == (scene.listener.reported, received)


@pytest.mark.parametrize(
    ("config", "assign", "unassign"),
    [
        ({}, ("assign", [(*_P0, _INVALID)]), ("unassign", ())),
        (
            _COOPERATIVE,
            ("incremental_assign", [(*_P0, _INVALID)]),
            ("incremental_unassign", [(*_P0, _INVALID)]),
        ),
    ],
    ids=["eager", "cooperative"],
)
def test_the_group_gives_and_takes(
    config: dict[str, str], assign: tuple[str, Any], unassign: tuple[str, Any]
) -> None:
    """Assign, then tell (a pause before is ignored); tell, then unassign (to commit before)."""
    scene = _Scene(config)
    callbacks = scene.subscribe()
    for name in ("on_assign", "on_revoke", "on_lost"):
        callbacks[name](None, _items(_P0))
    assert [
        assign,
        ("reported", "assigned"),
        ("reported", "revoked"),
        unassign,
        ("reported", "lost"),
        unassign,
    ] == scene.librdkafka.calls


def test_eagerly_everything_is_reassigned() -> None:
    """An eager assignment is replaced whole: every partition with its offset, or the stored one."""
    scene = _Scene()
    scene.client.reassign(_P0, {_P0: 7, _P1: None})
    assert [("assign", [(*_P0, 7), (*_P1, OFFSET_STORED)])] == scene.librdkafka.calls
    assert scene.client.restarts_all


def test_cooperatively_one_partition_is_reassigned() -> None:
    """The others go on undisturbed."""
    scene = _Scene(_COOPERATIVE)
    scene.client.reassign(_P0, {_P0: 7, _P1: 9})
    assert [
        ("incremental_unassign", [(*_P0, _INVALID)]),
        ("incremental_assign", [(*_P0, 7)]),
    ] == scene.librdkafka.calls
    assert not scene.client.restarts_all


def test_positions_in_librdkafkas_form() -> None:
    """Pause and resume take partitions, seek takes one with its offset."""
    scene = _Scene()
    scene.client.pause([_P0, _P1])
    scene.client.seek(_P0, 42)
    scene.client.resume([_P0])
    assert [
        ("pause", [(*_P0, _INVALID), (*_P1, _INVALID)]),
        ("seek", (*_P0, 42)),
        ("resume", [(*_P0, _INVALID)]),
    ] == scene.librdkafka.calls


def test_what_is_assigned_is_a_set_of_partitions() -> None:
    """Without offsets."""
    scene = _Scene()
    scene.librdkafka.answers["assignment"] = _items(_P0, _P1)
    assert {_P0, _P1} == scene.client.assignment()


@pytest.mark.parametrize(
    ("answer", "expected"),
    [
        ([TopicPartition(*_P0, 3)], 3),
        ([TopicPartition(*_P0, OFFSET_INVALID)], None),
        (KafkaException(KafkaError(KafkaError._TIMED_OUT)), None),
    ],
    ids=repr,
)
def test_an_edge_may_have_no_answer(answer: object, expected: int | None) -> None:
    """A broker that is silent says neither that there is something nor that there is nothing."""
    scene = _Scene()
    scene.librdkafka.answers["offsets_for_times"] = answer
    assert expected == scene.client.ask_offset(_P0, BEGINNING)


def test_a_refused_edge_is_no_answer() -> None:
    """The leader refuses the first question: nothing is known then, or the truth, never the end.

    `get_watermark_offsets` asks for the first offset and for the end; where the leader had moved
    and refused the first, and the second was answered, librdkafka forgot the refusal and said that
    the partition begins at its end. A group without a committed offset began there, and all that
    was in the partition was lost, without a word.
    """
    with EmbeddedKafka() as kafka:
        kafka.create_topic("orders")
        kafka.produce("orders", [b"book", b"pen", b"ink"])
        kafka.delete_records("orders", 0, 1)
        config = {"bootstrap.servers": kafka.bootstrap, "group.id": "billing", "log_level": 0}
        client = Client(consumer_settings(config))
        wait_until(lambda: client.ask_offset(_P0, BEGINNING) == 1, "the first offset")
        assert 3 == client.ask_offset(_P0, END)
        for _ in range(50):
            kafka.fail("ListOffsets", KafkaError.NOT_LEADER_FOR_PARTITION)
            assert client.ask_offset(_P0, BEGINNING) in (None, 1)
            kafka.clear_errors()
        client.disarm()
        client.close(join_within_s=1.0)


@pytest.mark.parametrize(
    ("config", "assigned", "expected"),
    [
        (_COOPERATIVE, [], ["unsubscribe", "poll", "poll", "close"]),
        (_COOPERATIVE, [_P0], ["close"]),
        (_COOPERATIVE | {"group.instance.id": "one"}, [], ["close"]),
        ({}, [], ["close"]),
        ({"group.protocol": "consumer"}, [], ["close"]),
    ],
    ids=["cooperative", "assigned", "static", "eager", "consumer"],
)
def test_a_member_without_a_partition_unsubscribes_before_it_closes(
    config: dict[str, str], assigned: list[Partition], expected: list[str]
) -> None:
    """And waits until it has left. One that keeps its partitions for its session does not leave."""
    scene = _Scene(config)
    ids = iter(["one", "one", ""])
    scene.librdkafka.answers |= {
        "assignment": _items(*assigned),
        "memberid": lambda: next(ids),
    }
    scene.client.close(join_within_s=1.0)
    asked = {"assignment", "memberid"}
    assert expected == [name for name in scene.librdkafka.names if name not in asked]


def test_a_member_that_cannot_join_closes_in_time() -> None:
    """Other members delay a rebalance for as long as their handlers take."""
    scene = _Scene(_COOPERATIVE)
    scene.librdkafka.answers |= {"assignment": [], "memberid": "one"}
    scene.client.close(join_within_s=0.5)
    assert {0.05: 10} == Counter(value for name, value in scene.librdkafka.calls if name == "poll")
    assert "close" == scene.librdkafka.names[-1]


def test_a_commit_is_sent_off_and_answered_later() -> None:
    """Asynchronous, with the offsets as given; the answer tells what was acknowledged."""
    scene = _Scene()
    scene.client.commit({_P0: 5})
    assert [("commit", ([(*_P0, 5)], True))] == scene.librdkafka.calls
    scene.call("on_commit", None, [TopicPartition(*_P0, 5)])
    assert [("committed", {_P0: (5, "")})] == scene.listener.reported


def test_a_refused_commit_names_what_was_refused() -> None:
    """One for all, and one for each kind of error: nothing refused counts as committed."""
    scene = _Scene()
    whole = KafkaError(KafkaError.UNKNOWN_MEMBER_ID)
    scene.call("on_commit", whole, [TopicPartition(*_P0, 5), TopicPartition(*_P1, 6)])
    assert [
        ("committed", {}),
        ("commit_failed", KafkaError.UNKNOWN_MEMBER_ID, (_P0, _P1)),
    ] == scene.listener.reported


class _Refused(TopicPartition):
    """One partition of an answer, with an error of its own, which only librdkafka can write."""

    error: Any = None


def test_a_commit_refused_for_one_partition_is_acknowledged_for_the_others() -> None:
    """Only the refused partition is named as refused; what the broker took counts as committed."""
    scene = _Scene()
    refused = _Refused(*_P1, 6)
    refused.error = KafkaError(KafkaError.UNKNOWN_TOPIC_OR_PART)
    scene.call("on_commit", None, [TopicPartition(*_P0, 5), refused])
    assert [
        ("committed", {_P0: (5, "")}),
        ("commit_failed", KafkaError.UNKNOWN_TOPIC_OR_PART, (_P1,)),
    ] == scene.listener.reported


def test_the_users_on_commit_is_still_called() -> None:
    """With what librdkafka says, after ours."""
    received: list[tuple[object, object]] = []
    scene = _Scene({"on_commit": lambda error, items: received.append((error, items))})
    items = [TopicPartition(*_P0, 5)]
    scene.call("on_commit", None, items)
    assert [(None, items)] == received


def test_a_synchronous_commit_raises_what_was_refused() -> None:
    """On a revoke nothing is polled any more: the answer is the call's."""
    scene = _Scene()
    scene.librdkafka.answers["commit"] = [TopicPartition(*_P0, 5)]
    scene.client.commit_now({_P0: 5})
    assert [("commit", ([(*_P0, 5)], False))] == scene.librdkafka.calls
    scene.librdkafka.answers["commit"] = None
    scene.client.commit_now({_P0: 5})


def test_the_users_error_callback_is_called_and_contained() -> None:
    """It is called first; what it raises is kept like ours, and ours is told all the same."""

    def broken(error: KafkaError) -> None:
        raise LookupError("bug in error_cb")

    scene = _Scene({"error_cb": broken})
    with pytest.raises(LookupError, match="bug in error_cb"):
        scene.call("error_cb", KafkaError(KafkaError._TRANSPORT))
    assert [("client_error", KafkaError._TRANSPORT)] == scene.listener.reported


def test_librdkafka_takes_our_keys_and_names_what_it_does_not_know() -> None:
    """A typing error is reported by its name before anything is read."""
    with pytest.raises(ConfigurationError, match=r"fetch\.typo"):
        Client(consumer_settings(_LEAST | {"fetch.typo": 1}))


_HOPELESS: list[tuple[KafkaError, type[Exception], str]] = [
    (KafkaError(KafkaError.FENCED_INSTANCE_ID), FencedError, "group.instance.id"),
    (KafkaError(KafkaError._FENCED), FencedError, "another member"),
    (
        KafkaError(KafkaError._FATAL, "Static consumer fenced by other consumer"),
        FencedError,
        "Static consumer fenced",
    ),
    (
        KafkaError(KafkaError._FATAL, "Fatal error: Broker: The instance ID is still used by ..."),
        FencedError,
        "group.instance.id",
    ),
    (KafkaError(KafkaError._FATAL, "broken"), BrokerError, "restart the consumer"),
    (KafkaError(KafkaError.UNKNOWN, "broken", fatal=True), BrokerError, "restart the consumer"),
    (KafkaError(KafkaError.TOPIC_AUTHORIZATION_FAILED), BrokerError, "READ and DESCRIBE on the"),
    (KafkaError(KafkaError.GROUP_AUTHORIZATION_FAILED), BrokerError, "READ on the group"),
    (
        KafkaError(KafkaError.CLUSTER_AUTHORIZATION_FAILED),
        BrokerError,
        "give this user the permission",
    ),
    (KafkaError(KafkaError._UNSUPPORTED_FEATURE), BrokerError, "_UNSUPPORTED_FEATURE"),
    (KafkaError(KafkaError.INCONSISTENT_GROUP_PROTOCOL), BrokerError, "correct the request"),
]


@pytest.mark.parametrize(("error", "kind", "text"), _HOPELESS, ids=lambda value: str(value)[:40])
def test_what_waiting_cannot_fix_is_raised(
    error: KafkaError, kind: type[Exception], text: str
) -> None:
    """Fenced, fatal or refused: codes are asked, since `fatal()` is False for a fenced member."""
    with pytest.raises(kind, match=text):
        raise_if_fatal(error)


@pytest.mark.parametrize(
    "code",
    [
        KafkaError._TRANSPORT,
        KafkaError._ALL_BROKERS_DOWN,
        KafkaError._TIMED_OUT,
        KafkaError._MAX_POLL_EXCEEDED,
        KafkaError.UNKNOWN_TOPIC_OR_PART,
        KafkaError.REBALANCE_IN_PROGRESS,
        KafkaError.COORDINATOR_NOT_AVAILABLE,
        KafkaError._RESOLVE,
        KafkaError._AUTHENTICATION,
    ],
)
def test_what_may_pass_is_not_raised(code: int) -> None:
    """A broker that is down comes back; nothing is given up for it."""
    raise_if_fatal(KafkaError(code))


@pytest.mark.parametrize(
    ("error", "expected"),
    [
        (KafkaError(KafkaError._TIMED_OUT), True),
        (KafkaError(KafkaError.NOT_COORDINATOR), True),
        (KafkaError(KafkaError.REBALANCE_IN_PROGRESS), True),
        (KafkaError(KafkaError.ILLEGAL_GENERATION), True),
        (KafkaError(KafkaError._ASSIGNMENT_LOST), True),
        (KafkaError(KafkaError.UNKNOWN, retriable=True), True),
        (KafkaError(KafkaError.UNKNOWN), False),
        (KafkaError(KafkaError.OFFSET_METADATA_TOO_LARGE), False),
        (KafkaError(KafkaError.GROUP_AUTHORIZATION_FAILED), False),
        (KafkaError(KafkaError.FENCED_INSTANCE_ID), False),
    ],
    ids=str,
)
def test_which_commits_may_be_sent_again(error: KafkaError, expected: bool) -> None:
    """What time or a rebalance settles is sent again; a refused right is not."""
    assert expected == is_retriable_commit(error)


def _transactional() -> tuple[Client, RecordingConsumer, dict[str, Any]]:
    """A client that keeps its membership, and librdkafka's three callbacks of the group."""
    scene = _Scene(transactional=True)
    return scene.client, scene.librdkafka, scene.subscribe()


def test_the_membership_is_that_of_the_last_assignment() -> None:
    """Captured in `on_assign`, and given up with the loss: never asked for at its use."""
    client, librdkafka, callbacks = _transactional()
    librdkafka.answers |= {"memberid": "one", "consumer_group_metadata": b"first"}
    seen = [client.member.metadata]
    callbacks["on_assign"](None, [TopicPartition(*_P0)])
    seen.append(client.member.metadata)
    librdkafka.answers["consumer_group_metadata"] = b"second"
    seen.append(client.member.metadata)
    callbacks["on_revoke"](None, [])
    seen.append(client.member.metadata)
    callbacks["on_lost"](None, [TopicPartition(*_P0)])
    assert [None, b"first", b"first", b"first"] == seen
    assert client.member.metadata is None


@pytest.mark.parametrize("ids", [[None, None], ["", ""], ["one", None], ["one", "two"]])
def test_who_is_no_member_has_no_membership(ids: list[str | None]) -> None:
    """The broker takes a transaction's commit that names no member from anyone."""
    client, librdkafka, _ = _transactional()
    answers = iter(ids)
    librdkafka.answers |= {
        "memberid": lambda: next(answers),
        "consumer_group_metadata": b"anyone",
    }
    client.member.capture()
    assert client.member.metadata is None


def test_a_consumer_without_transactions_keeps_no_membership() -> None:
    """librdkafka is asked for nothing that nobody needs."""
    scene = _Scene()
    scene.subscribe()["on_assign"](None, [TopicPartition(*_P0)])
    assert [] == [call for call in scene.librdkafka.calls if call[0] == "consumer_group_metadata"]


def test_commits_under_way_are_counted() -> None:
    """Each partition by itself, from the sending to the answer, whatever it says."""
    scene = _Scene()
    scene.client.commit({_P0: 1000, _P1: 5})
    scene.client.commit({_P0: 2000})
    answer = scene.librdkafka.config["on_commit"]
    seen = []
    for error, offsets in ((None, {_P0: 1000, _P1: 5}), (KafkaError(-185), {_P0: 2000})):
        seen.append([scene.client.awaits_commit(key) for key in (_P0, _P1)])
        answer(error, [TopicPartition(*key, offset) for key, offset in offsets.items()])
    seen.append([scene.client.awaits_commit(key) for key in (_P0, _P1)])
    assert [[True, True], [True, False], [False, False]] == seen


@pytest.mark.parametrize(("answered", "known"), [(7, 7), (0, 0), (_INVALID, None)])
def test_what_the_group_has_committed(answered: int, known: int | None) -> None:
    """Asked of the broker, for a second at most; nothing committed is None."""
    scene = _Scene()
    scene.librdkafka.answers["committed"] = [TopicPartition(*_P0, answered)]
    assert known == scene.client.committed(_P0)
    assert ("committed", ([("orders", 0, _INVALID)], 1.0)) == scene.librdkafka.calls[-1]
