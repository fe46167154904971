"""What waits behind held keys is dropped where memory is short, and fetched again."""

from dataclasses import replace
from typing import Any

import pytest

from linear_retry import Backlog, events
from linear_retry.consumer.settings.by_key import ByKey
from linear_retry.kafka.consumer.second_reader import Part
from linear_retry.scope import Partition
from linear_retry.testing import AttemptFinished, AttemptStarted
from tests.consumer.group import TOPIC, FakeGroup, Member

_P0 = (TOPIC, 0)


def _held(waiting: int, **options: Any) -> FakeGroup:
    """Key a is held, and so many of its messages wait; all of key b is done."""
    group = FakeGroup(
        partitions=2,
        strategy=[60.0] * 9,
        scope=ByKey(most_bytes=100),
        concurrency=4,
        **options,
    )
    group.join()
    group.share([0, 0])
    group.dependency.down_for_keys = {b"a"}
    group.produce_keys(0, [b"a", b"b"])
    for _ in range(waiting):
        group.turn()
        group.produce_keys(0, [b"a", b"b"])
    group.turn(10)
    return group


def _attempts(group: FakeGroup, key: bytes, partition: int = 0) -> list[int]:
    started = [each for each in group.witness.entries if isinstance(each, AttemptStarted)]
    places = [each.place for each in started if each.place.partition == partition]
    return [place.offset for place in places if group.keys[place] == key]


def _succeeded(group: FakeGroup, key: bytes) -> list[int]:
    ended = [each for each in group.witness.entries if isinstance(each, AttemptFinished)]
    places = [each.place for each in ended if each.outcome == "done"]
    return [place.offset for place in places if group.keys[place] == key]


def _backlog(member: Member) -> Backlog:
    return member.parts.lag.ask(1.0)[_P0]


def _lost(member: Member) -> list[tuple[int, int]]:
    found = [each for each in member.events if isinstance(each, events.DataLost)]
    return [(each.offset, each.next_offset) for each in found]


def test_the_others_go_on_and_it_comes_back_in_order() -> None:
    """Meanwhile the position of the client in the group never moves back."""
    group = _held(200)
    assert [*range(1, 402, 2)] == _attempts(group, b"b")
    (member,) = group.members
    before = len(member.handles)
    group.dependency.down_for_keys = set()
    group.finish(within_s=200)
    assert [0, *range(2, 402, 2)] == sorted({*_attempts(group, b"a")})
    assert [] == group.violations()
    assert before + 1 == len(member.handles)
    name = member.consumer.name
    sought = [what for _, client, call, what in group.fake.log if (client, call) == (name, "seek")]
    assert sorted(sought) == sought


@pytest.mark.parametrize("waiting", [5, 200])
def test_how_much_is_done_and_how_much_waits(waiting: int) -> None:
    """Also of what was dropped, after a restart, and while the key works off what has waited."""
    group = _held(waiting)
    (member,) = group.members
    for _ in range(2):
        assert Backlog(2 * waiting + 2, waiting + 1, waiting) == _backlog(member)
        group.leave(member)
        member = group.join()
        group.share([0, 0])
        group.turn(20)
    group.dependency.down_for_keys = set()
    group.fake.clock.advance(60)
    counted = set[int]()
    while (left := _backlog(member)).unfinished > 0:
        places = {*range(0, 2 * waiting + 2, 2)} - {*_succeeded(group, b"a")}
        # A worker has up to 16 of them, which count until it comes back.
        assert len(places) <= left.unfinished <= len(places) + 16
        counted.add(left.unfinished)
        group.turn()
    assert len(counted) > 1


def test_the_next_owner_begins_where_the_key_does() -> None:
    """What was dropped is told of by the place of its key in the note."""
    group = _held(50)
    (member,) = group.members
    before = _attempts(group, b"b")
    group.leave(member)
    group.dependency.down_for_keys = set()
    group.join()
    group.share([0, 0])
    group.finish(within_s=200)
    assert before == _attempts(group, b"b")
    assert [*range(0, 102, 2)] == sorted({*_attempts(group, b"a")})
    assert [] == group.violations()


def test_what_retention_removes_of_it_is_lost_and_said() -> None:
    """The rest is handled."""
    group = _held(50)
    (member,) = group.members
    group.fake.delete_records(*_P0, 60)
    group.dependency.down_for_keys = set()
    group.turn(400)
    assert [(lost[1], len(_lost(member))) for lost in _lost(member)] == [(60, 1)]
    assert [*range(60, 102, 2)] == [at for at in _attempts(group, b"a") if at >= 60]


def test_a_client_that_begins_elsewhere() -> None:
    """The bug: what is before the place where it began was lost."""
    group = _held(50)
    group.fake.faults.jump(_P0, 80)
    group.dependency.down_for_keys = set()
    group.finish(within_s=200)
    assert [*range(2, 102, 2)] == _attempts(group, b"a")[-50:]
    assert [] == group.violations()


def test_brokers_that_are_away_meanwhile() -> None:
    """It waits for them, without a busy loop, and loses nothing."""
    group = _held(50)
    group.dependency.down_for_keys = set()
    group.fake.clock.advance(60)
    group.turn(2)
    group.fake.faults.brokers_down = True
    group.turn(100)
    group.fake.faults.brokers_down = False
    group.finish(within_s=300)
    assert [] == group.violations()


def test_a_partition_that_cannot_be_fetched_keeps_no_other_waiting(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Its leader is away: after a second it is the other's turn."""
    group = _held(50)
    (member,) = group.members
    for _ in range(50):
        group.produce_keys(1, [b"a", b"b"])
        group.turn()
    group.turn(10)
    group.dependency.down_for_keys = set()
    reader = member.parts.second_reader
    read, parts = reader.read, list[Part]()

    def answers_once(partition: Partition, offset: int) -> Part | None:
        """A first part of partition 0, with two messages, and then nothing of it."""
        part = None if partition == _P0 and parts else read(partition, offset)
        if partition == _P0 and part is not None:
            parts.append(replace(part, messages=part.messages[:2], end=part.start + 2))
            return parts[0]
        return part

    monkeypatch.setattr(reader, "read", answers_once)
    until_s = group.fake.clock.now_s() + 80
    while group.fake.clock.now_s() < until_s:
        group.turn()
    assert [*range(0, 100, 2)] == sorted({*_attempts(group, b"a", partition=1)})
    monkeypatch.setattr(reader, "read", read)
    group.finish(within_s=300)
    assert [] == group.violations()


def test_a_fetch_that_nothing_comes_of_is_begun_again() -> None:
    """librdkafka may stall a partition as it is assigned (#5591), and reports an error only once:
    the one key that misses something would wait for ever, and nobody would be told."""
    group = _held(50)
    group.dependency.down_for_keys = set()
    group.fake.faults.kill(_P0)
    group.finish(within_s=300)
    assert [] == group.violations()
    assert [0, *range(2, 102, 2)] == sorted({*_attempts(group, b"a")})


def test_a_partition_that_moves_while_it_is_fetched() -> None:
    """What comes of it then counts no more; the next owner fetches it by itself."""
    group = _held(100)
    group.dependency.down_for_keys = set()
    group.fake.clock.advance(60)
    group.turn(3)
    group.join()
    group.share([1, 0])
    group.finish(within_s=300)
    assert [] == group.violations()
    assert [0, *range(2, 202, 2)] == sorted({*_attempts(group, b"a")})


def test_it_says_once_that_something_cannot_be_read_again(
    caplog: pytest.LogCaptureFixture,
) -> None:
    """Its key stands still: somebody must know."""
    group = _held(50)
    group.dependency.down_for_keys = set()
    group.fake.delete_records(*_P0, 60)
    group.fake.faults.silence_edges(3)
    group.turn(400)
    said = [each.message for each in caplog.records if "cannot be read again" in each.message]
    assert 1 == len(said)
    assert "messages of partition 0 from offset" in said[0]
    assert 60 in _attempts(group, b"a")
