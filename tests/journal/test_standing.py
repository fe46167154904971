"""How the groups of a journal stand in Kafka, whatever their members have written last."""

import itertools
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from uuid import uuid4

import pytest
from confluent_kafka.admin import AclOperation, ResourceType  # type: ignore[attr-defined]  # exported by import only

from linear_retry import events as e
from linear_retry.journal.entry import Entry
from linear_retry.journal.group_state import GroupStates, GroupView
from linear_retry.journal.standing import GroupStatus, Lag, Liveness, Standing, Standings, status_of
from linear_retry.records.commit_note import CommitNote, Digests, Undone, write_note
from tests import dying_with_parent
from tests.conftest import TopicFactory
from tests.dlq.guarded_kafka import GuardedKafka
from tests.journal.journal_story import Life, opened
from tests.kafka_operations import KafkaOperations, wait_until
from tests.real_kafka import RealKafka
from tests.records.test_commit_note import newer_note

_CONSUMING = """
import sys
from confluent_kafka import Consumer
servers, group, topic = sys.argv[1:]
consumer = Consumer({"bootstrap.servers": servers, "group.id": group, "session.timeout.ms": 6000,
                     "auto.offset.reset": "earliest", "enable.auto.commit": False})
consumer.subscribe([topic])
while True:
    if (message := consumer.poll(1)) is not None and not message.error():
        consumer.commit(message, asynchronous=False)
        print(message.offset(), flush=True)
"""


def _view(group: str, *says: e.Event) -> GroupView:
    states, life, times = GroupStates(), Life("pod-1", uuid4().hex, group), itertools.count(1)
    for event in says:
        states.take(life.says(next(times), event))
    return states.view(group)


@contextmanager
def _asking(kafka: KafkaOperations) -> Iterator[Callable[[GroupView], Standing]]:
    standings = Standings(kafka.client_settings())

    def ask(view: GroupView) -> Standing:
        standings.refresh()
        return standings.of(view)

    yield ask
    standings.keep(())


@pytest.mark.broker
def test_a_killed_group_has_no_live_member(kafka: RealKafka, topic: TopicFactory) -> None:
    """`kill -9` of its only member: "closed", green, and nobody read what waited.

    A killed member writes nothing, so its last entry, that it was assigned partitions, stayed true.
    """
    orders, group = topic(2), f"group-{uuid4().hex[:8]}"
    view = _view(group, e.Assigned(((orders, 0),)))
    kafka.produce(orders, [(each, None, b"value", ()) for each in (0, 1)])
    command = [sys.executable, "-c", _CONSUMING, kafka.bootstrap, group, orders]
    with (
        subprocess.Popen(dying_with_parent.guarded(*command), stdout=subprocess.PIPE) as member,
        _asking(kafka) as ask,
    ):
        assert member.stdout is not None
        assert [b"0\n"] * 2 == [member.stdout.readline() for _ in range(2)]
        assert Standing("live") == ask(view)
        member.kill()
        kafka.produce(orders, [(each % 2, None, b"value", ()) for each in range(5)])
        wait_until(lambda: ask(view) == Standing("no-member", 5), "its session is over")
        # Of both partitions, though the journal knows of one.
        assert "no live member, 5 waiting" == str(ask(view))
    states = {"unknown": "unknown", "live": "closed", "no-member": "no-member", "past": "past"}
    for liveness, status in states.items():
        assert status == status_of(view, liveness, 10)  # type: ignore[arg-type]  # its literals


@pytest.mark.broker
def test_a_group_that_kafka_no_longer_knows_is_past(kafka: RealKafka, topic: TopicFactory) -> None:
    """And not one of Spark, whose name no consumer group ever had: that is not known."""
    orders, group = topic(), f"group-{uuid4().hex[:8]}"
    with _asking(kafka) as ask:
        assert Standing("past") == ask(_view(group, e.Assigned(((orders, 0),))))
        assert Standing("unknown") == ask(_view("charges", e.Assigned((("spark:charges", 0),))))
        kafka.commit(f"{group}-2", orders, {0: 0})
        # All left, and all that was assigned was revoked: what it read is asked about.
        left = e.Assigned(((orders, 0),)), e.Revoked(((orders, 0),)), e.Stopped(left_group=True)
        assert Standing("no-member", 0) == ask(_view(f"{group}-2", *left))


@pytest.mark.broker
def test_without_the_right_nothing_is_known(tmp_path: Path) -> None:
    """Kafka does not list a group to whom may not describe it, as if it did not exist: not past."""
    kafka = GuardedKafka(tmp_path / "kafka", strict=True)
    with kafka:
        kafka.create_topic("orders")
        kafka.commit("billing", "orders", {0: 0})
        view = _view("billing", e.Assigned((("orders", 0),)))
        standings = Standings(kafka.keys("reader"))
        topic = (ResourceType.TOPIC, "orders", AclOperation.DESCRIBE)
        kafka.allow_only([topic])
        standings.refresh()
        assert Standing("unknown") == standings.of(view)
        kafka.allow_only([topic, (ResourceType.GROUP, "billing", AclOperation.DESCRIBE)])
        standings.refresh()
        assert Standing("no-member", 0) == standings.of(view)
        standings.keep(())


_ASSIGNED, _IDLE = e.Assigned((("orders", 0),)), e.Assigned(())


@pytest.mark.parametrize(
    ("says", "liveness", "expected"),
    [
        ([_ASSIGNED], "live", "closed"),
        ([_ASSIGNED], "unknown", "unknown"),
        ([_IDLE], "live", "idle"),
        ([_IDLE], "unknown", "unknown"),
        ([opened(("orders", 0), 7, 99)], "unknown", "open"),
        ([opened(("orders", 0), 7, 99)], "no-member", "no-member"),
        ([opened(("orders", 0), 7, 99)], "past", "past"),
        ([_ASSIGNED, e.Stopped(left_group=True)], "live", "stopped"),
    ],
)
def test_what_is_not_known_to_live_is_never_closed(
    says: list[e.Event], liveness: Liveness, expected: GroupStatus
) -> None:
    """Green was for each group of which nobody had said that something is wrong."""
    assert expected == status_of(_view("billing", *says), liveness, 10)


def test_one_silent_member_makes_a_group_silent() -> None:
    """It was green, since the member that has its partitions is well."""
    states = GroupStates()
    for number in range(2):
        member = f"pod-{number}"
        states.take(Entry(member, 1, number, "billing", member, _ASSIGNED))
    assert "silent" == status_of(states.view("billing"), "live", 10)


def test_a_held_key_keeps_back_the_lag_of_its_group_alone() -> None:
    """What the others have yet to do begins where the note says; not if a tool has moved the offset
    and written the text back, nor by a note of a later release."""
    partition, key = ("orders", 0), Digests("billing").of_key(b"a")
    note = CommitNote(10, 95, (Undone("key", 10, key),))
    text = write_note(note, "billing", partition)
    assert Lag(90, 5) == Lag.after((10, text), 100, "billing", partition)
    assert Lag(88, 88) == Lag.after((12, text), 100, "billing", partition)
    assert Lag(90, 90) == Lag.after((10, text), 100, "refunds", partition)
    newer = newer_note("billing", partition)
    assert Lag(90, 90) == Lag.after((10, newer), 100, "billing", partition)


@pytest.mark.broker
def test_an_end_below_the_commit_is_a_negative_lag(kafka: RealKafka, topic: TopicFactory) -> None:
    """A log that was cut, or a topic that was created again: a 0 would hide the only sign of it.

    Of what waits in another partition it takes nothing off.
    """
    orders, group = topic(2), f"group-{uuid4().hex[:8]}"
    kafka.produce(orders, [(each, None, b"value", ()) for each in (0, 0, 1)])
    kafka.commit(group, orders, {0: 10, 1: 0})
    view = _view(group, e.Assigned(((orders, 0), (orders, 1))))
    standings = Standings(kafka.client_settings())
    standings.refresh()
    assert {(orders, 0): Lag(-8, -8), (orders, 1): Lag(1, 1)} == standings.lags(view)
    assert Standing("no-member", 1) == standings.of(view)
    standings.keep(())


@pytest.mark.broker
def test_partitions_of_which_nothing_is_committed(kafka: RealKafka, topic: TopicFactory) -> None:
    """The bug: they were left out, so that with messages in a partition that nobody had begun,
    "no live member, 1 waiting" was said, or 0. Where the group begins in them nobody knows."""
    orders, group = topic(3), f"group-{uuid4().hex[:8]}"
    view = _view(group, e.Assigned(((orders, 0),)))
    kafka.produce(orders, [(each, None, b"value", ()) for each in (0, 0, 1)])

    def commits(*offsets: int) -> None:
        kafka.commit(group, orders, dict(enumerate(offsets)))

    with _asking(kafka) as ask:
        commits(1)
        assert "no live member, at least 1 waiting" == str(ask(view))
        commits(2)
        assert "no live member, unknown how many waiting" == str(ask(view))
        commits(2, 0)
        # Nothing was ever in the third one.
        assert "no live member, 1 waiting" == str(ask(view))
