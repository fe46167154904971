"""What waits for the store keeps its order, and waits in memory for a short time only."""

from collections.abc import Iterator
from unittest.mock import Mock

import pytest

from linear_retry.store import messages
from linear_retry.store.records import NewMessage
from tests.outbox.scene import LANE, TIMEOUT_S, AwayDatabase, KeeperScene, stored


@pytest.fixture
def database(store_url: str) -> Iterator[AwayDatabase]:
    database = AwayDatabase(store_url)
    yield database
    database.close()


def _store(database: AwayDatabase, value: bytes, due_in_ms: int) -> None:
    """Stores a message of the lane: due then, as if others had."""
    destination, slot = LANE
    with database.begin() as connection:
        due_ms = database.now_ms(connection) + due_in_ms
        one = NewMessage(
            service="outbox",
            destination=destination,
            slot=slot,
            due_ms=due_ms,
            key=b"k",
            value=value,
            retry_id="0",
        )
        messages.add(database, connection, [one])


def _remove_all(database: AwayDatabase) -> None:
    with database.begin() as connection:
        waiting = messages.waiting(connection, "outbox")
        messages.remove(connection, [each.id for each in waiting])


def test_nothing_overtakes_what_the_store_does_not_take(database: AwayDatabase) -> None:
    """Its lane looks empty in the store; what comes later would be sent directly before it."""
    _store(database, b"0", due_in_ms=-60_000)
    scene = KeeperScene(database)
    database.is_away = True
    scene.send(1)
    scene.turn_after(0.0)
    database.is_away = False
    _remove_all(database)
    database.is_away = True
    scene.turn_after(1.0)
    scene.send(2)
    database.is_away = False
    scene.turn_after(1.0)
    scene.send(3)
    assert ([], [1, 2]) == (scene.sent, stored(database))
    _remove_all(database)
    scene.turn_after(0.0)
    scene.send(4)
    assert [b"3", b"4"] == scene.sent


@pytest.mark.parametrize("due_in_ms", [3_600_000, 0, -60_000])
def test_nothing_waits_long_in_memory(database: AwayDatabase, due_in_ms: int) -> None:
    """A message that was postponed, or one of before the clock was set back, stalled its lane.

    What came later was neither sent nor stored, and `flush` and `close` hung. Nor may one that is
    due, and is never sent, keep what comes later from the store.
    """
    _store(database, b"0", due_in_ms)
    scene = KeeperScene(database)
    scene.send(1)
    scene.turn_after(0.0)
    scene.send(2)
    scene.turn_after(0.0)
    scene.turn_after(2.0)
    assert {0, 1, 2} == set(stored(database))
    assert ([], 0) == (scene.sent, len(scene.sending))


def test_what_comes_next_for_a_lane_that_is_nearly_empty_waits_for_a_moment(
    database: AwayDatabase,
) -> None:
    """Else a lane that always gets more would never leave the store; each time, not only once."""
    _store(database, b"0", 0)
    scene = KeeperScene(database)
    for number in (1, 2):
        scene.send(number)
        scene.turn_after(0.0)
        scene.turn_after(1.9)
        assert [*range(number)] == stored(database)
        scene.turn_after(0.1)
        assert [*range(number + 1)] == stored(database)
    scene.send(3)
    scene.turn_after(0.0)
    _remove_all(database)
    scene.turn_after(0.0)
    assert [b"3"] == scene.sent


def test_what_the_store_does_not_take_is_sent_when_kafka_is_there_before_it(
    database: AwayDatabase,
) -> None:
    """In order, and nothing before what the store has of its lane. All of it was given up, and so
    was all that came later, until the store was back."""
    _store(database, b"0", due_in_ms=-60_000)
    scene = KeeperScene(database)
    database.is_away = True
    scene.sending.end_direct()
    for number, key in enumerate((b"k", b"a", b"b", b"a"), start=1):
        scene.send(number, key)
    scene.turn_after(0.0)
    assert [] == scene.sent
    scene.kafka.answers = True
    scene.turn_after(1.0)
    assert [b"2", b"3", b"4"] == scene.sent
    scene.send(5, b"a")
    scene.send(6, b"k")
    scene.turn_after(1.0)
    assert ([b"5"], 2) == (scene.sent[3:], len(scene.sending))
    database.is_away = False
    scene.turn_after(1.0)
    assert [0, 1, 6] == stored(database)


def test_nothing_is_moved_that_may_not_be_sent(
    database: AwayDatabase, monkeypatch: pytest.MonkeyPatch
) -> None:
    """All that waits was taken back each second, and `produce` waited for that. Kafka is asked of
    one topic, as the answer about all takes long."""
    _store(database, b"0", due_in_ms=-60_000)
    scene = KeeperScene(database)
    database.is_away = scene.kafka.answers = True
    withdraw = Mock(wraps=scene.storing.withdraw)
    monkeypatch.setattr(scene.storing, "withdraw", withdraw)
    scene.send(1)
    scene.turn_after(0.0)
    scene.turn_after(1.0)
    assert (0, [], 1) == (withdraw.call_count, scene.kafka.asked, len(scene.storing))
    scene.sending.end_direct()
    scene.send(2, b"a")
    scene.turn_after(1.0)
    assert (1, ["orders"], [b"2"]) == (withdraw.call_count, scene.kafka.asked, scene.sent)


def test_what_neither_takes_is_given_up_in_time(database: AwayDatabase) -> None:
    """However often it was given back to be sent."""
    _store(database, b"0", due_in_ms=-60_000)
    scene = KeeperScene(database)
    database.is_away = scene.kafka.answers = True
    scene.send(1)
    for _ in range(round(TIMEOUT_S)):
        scene.turn_after(1.0)
    assert 0 == scene.storing.lost
    scene.turn_after(1.0)
    assert (1, 0) == (scene.storing.lost, len(scene.sending))
