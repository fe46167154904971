"""Partitions are attempted side by side, and each goes in its own order."""

from collections.abc import Iterable
from itertools import takewhile
from typing import Any, get_args

import pytest

from linear_retry import (
    HandlerTooSlowError,
    LinearConsumer,
    PermanentError,
    UsageError,
    events,
)
from linear_retry.consumer.lanes.lane_read_ahead import LaneReadAhead
from linear_retry.consumer.ownership.requests import GiveUp
from linear_retry.consumer.partitions import queued_read_ahead
from linear_retry.errors import ConfigurationError
from linear_retry.scope import Partition, Scope
from linear_retry.testing import AttemptStarted
from tests.consumer.group import LETTERS, TOPIC, FakeGroup, Member, Protocol, consumer_on
from tests.fake.cluster import FakeKafka

_P0, _P1, _P2, _P3 = ((TOPIC, number) for number in range(4))

_NOT_POLLED_FOR_LONG = {"max.poll.interval.ms": 30_000, "session.timeout.ms": 10_000}
"""A revoke waits for at most 24 s, which every guarantee allows."""

each_protocol = pytest.mark.parametrize("protocol", get_args(Protocol))


def _group(protocol: Protocol = "eager", **options: Any) -> FakeGroup:
    """Four partitions with three messages each."""
    chosen: dict[str, Any] = {"scope": "partition", "concurrency": 4} | options
    group = FakeGroup(protocol=protocol, partitions=4, **chosen)
    for partition in group.partitions:
        group.produce(partition, 3)
    return group


def _joined(group: FakeGroup) -> Member:
    """A member that has all partitions, and workers for each."""
    member = group.join()
    group.share([0, 0, 0, 0])
    return member


def _started(group: FakeGroup) -> list[AttemptStarted]:
    return [entry for entry in group.witness.entries if isinstance(entry, AttemptStarted)]


def _attempted(group: FakeGroup, partition: Partition) -> list[int]:
    return [entry.place.offset for entry in _started(group) if entry.place[:2] == partition]


def _with_workers(group: FakeGroup) -> set[Partition]:
    """The partitions with messages that a worker has."""
    works = [each for member in group.members for each in member.workers.running.values()]
    return {each.partition for each in works}


def _turn_until(group: FakeGroup, busy: Iterable[Partition]) -> None:
    """Until workers have messages of these."""
    for _ in range(200):
        if {*busy} <= _with_workers(group):
            return
        group.turn()
    pytest.fail("no worker has them")


def _turn_for(group: FakeGroup, seconds: float) -> None:
    """Turns in which others have time for what they have to do."""
    until_s = group.fake.clock.now_s() + seconds
    while group.fake.clock.now_s() < until_s:
        group.fake.clock.advance(1.0)
        group.turn()


@each_protocol
def test_one_that_waits_stops_nobody(protocol: Protocol) -> None:
    """Nor does one whose handler takes its time; and once it goes on, it goes on in its order."""
    group = _group(protocol)
    member = _joined(group)
    member.workers.busy = {_P0}
    group.dependency.down_for = {_P1}
    for _ in range(40):
        group.turn()
    assert [0, 1, 2] == _attempted(group, _P2) == _attempted(group, _P3)
    assert [] == _attempted(group, _P0)
    assert {0} == {*_attempted(group, _P1)}
    member.workers.busy.clear()
    group.dependency.down_for = set()
    group.finish()
    assert [0, 1, 2] == _attempted(group, _P0)
    assert [] == group.violations()


def test_more_partitions_than_workers() -> None:
    """Each has its turn, however many messages the first of them has."""
    group = _group(concurrency=1 + 1)
    group.produce(_P0, 500)
    group.produce(_P1, 500)
    _joined(group)
    for _ in range(30):
        group.turn()
    assert [0, 1, 2] == _attempted(group, _P2) == _attempted(group, _P3)
    group.finish()
    assert [] == group.violations()


def test_memory_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    """The others are read on while one handler takes its time: what comes of its partition waits
    at the broker, not here."""
    monkeypatch.setattr(queued_read_ahead, "MOST_MESSAGES", 20)
    group = _group()
    member = _joined(group)
    member.workers.busy = {_P0}
    _turn_until(group, {_P0})
    for _ in range(40):
        group.produce(_P0, 10)
        group.produce(_P1, 1)
        group.turn()
    read_ahead = member.parts.read_ahead
    assert isinstance(read_ahead, LaneReadAhead)
    assert len(read_ahead.first(Scope(*_P0), 1000)) <= 40
    assert 40 < len(_attempted(group, _P1))
    member.workers.busy.clear()
    group.finish()
    assert [*range(403)] == _attempted(group, _P0)
    assert [] == group.violations()


@each_protocol
def test_a_revoke_waits_for_what_runs(protocol: Protocol) -> None:
    """What is done by then is committed: the next owner repeats nothing."""
    group = _group(protocol)
    first = _joined(group)
    first.workers.late = {*group.partitions}
    _turn_until(group, group.partitions)
    group.join()
    group.share([1, 1, 1, 1])
    group.turn()
    first.workers.late.clear()
    group.finish()
    for partition in group.partitions:
        assert [0, 1, 2] == _attempted(group, partition)
    assert [] == group.violations()


@pytest.mark.parametrize("protocol", ["cooperative", "consumer"])
def test_what_stays_is_served_while_a_revoke_waits(protocol: Protocol) -> None:
    """A slow handler of a partition that goes kept all others from their messages."""
    group = _group(protocol, config=_NOT_POLLED_FOR_LONG)
    group.produce(_P1, 300)
    first = _joined(group)
    first.workers.busy = {_P0, _P1}
    _turn_until(group, {_P0, _P1})
    first.workers.busy = {_P0}
    group.join()
    group.share([1, 0, 0, 0])
    while _P0 in first.parts.assignment.partitions:
        assert 303 > len(_attempted(group, _P1))
        group.turn()
    until_then = takewhile(
        lambda entry: getattr(entry, "event", None) != events.Revoked((_P0,)), group.witness.entries
    )
    started = [entry.place for entry in until_then if isinstance(entry, AttemptStarted)]
    assert [*range(303)] == [place.offset for place in started if place[:2] == _P1]
    first.workers.busy.clear()
    group.finish()
    assert [] == group.violations()


def test_what_goes_begins_nothing_more() -> None:
    """While its handlers are waited for, other keys of a partition that goes are left to its next
    owner; else the group would wait for them too."""
    group = _group("cooperative", scope="key", config=_NOT_POLLED_FOR_LONG)
    for partition in (_P0, _P1):
        group.produce_keys(partition, [b"%d" % number for number in range(100)])
    first = _joined(group)
    first.workers.busy = {_P0}
    _turn_until(group, {_P0})
    running = [lane for lane in first.workers.running if lane.home == _P0]
    group.join()
    group.share([1, 0, 0, 0])
    while _P0 in first.parts.assignment.partitions:
        group.turn()
    assert running == [lane for lane in first.workers.running if lane.home == _P0]
    assert 103 == len(_attempted(group, _P1))
    first.workers.busy.clear()
    group.finish()
    assert [] == group.violations()


def test_a_failure_during_a_revoke_is_not_forgotten() -> None:
    """The next owner waits until `retry_at`, and counts it: one strategy for both."""
    group = _group(strategy=[10.0])
    first = _joined(group)
    first.workers.late = {_P0}
    group.dependency.down_for = {_P0}
    _turn_until(group, {_P0})
    second = group.join()
    begun_s = group.fake.clock.now_s()
    group.share([1, 0, 0, 0])
    while not list(second.circuits):
        group.turn()
    view = second.circuits.views[Scope(*_P0)]
    assert (0, 1) == (view.offset, view.failures)
    assert [0] == _attempted(group, _P0)
    group.dependency.down_for = set()
    group.finish()
    started = [
        entry.at_s
        for entry in group.witness.entries
        if isinstance(entry, AttemptStarted) and entry.place == (*_P0, 0)
    ]
    assert 2 == len(started)
    assert started[1] - begun_s >= 10.0
    assert [] == group.violations()


def test_lost_and_back_while_its_handler_runs() -> None:
    """The old handler comes first to its end: never two of a partition at once, in one process."""
    group = _group()
    member = _joined(group)
    member.workers.busy = {_P0}
    _turn_until(group, {_P0})
    group.fake.lose(member.consumer)
    group.turn()
    group.share([0, 0, 0, 0])
    for _ in range(20):
        group.turn()
    old = member.workers.running[Scope(*_P0)]
    assert not old.is_ours
    assert _P0 in member.parts.assignment
    assert [] == _attempted(group, _P0)
    member.workers.busy.clear()
    group.finish()
    assert [0, 1, 2] == _attempted(group, _P0)


@pytest.mark.parametrize("succeeds", [True, False])
def test_a_request_waits_for_the_attempt_that_runs(*, succeeds: bool) -> None:
    """It may succeed, and is not held any more then; if it fails, it is given up."""
    group = _group(strategy=[1.0, 60.0, 60.0])
    member = _joined(group)
    group.dependency.down_for = {_P0}
    while not list(member.circuits):
        group.turn()
    member.workers.busy = {_P0}
    _turn_until(group, {_P0})
    given_up = member.parts.requests.submit(GiveUp((_P0, 0)))
    group.turn(5)
    assert not given_up.done()
    if succeeds:
        group.dependency.down_for = set()
    member.workers.busy.clear()
    while not given_up.done():
        group.turn()
    assert succeeds is not given_up.result(0)
    assert len(group.fake.topics[LETTERS].partitions[0].records) == (not succeeds)
    group.dependency.down_for = set()
    group.finish()
    assert [] == group.violations()


def test_a_handler_that_hangs_is_named() -> None:
    """Once, and the others go on: it keeps nobody from polling."""
    group = _group(concurrency=8)
    member = _joined(group)
    member.workers.busy = {_P0}
    _turn_until(group, {_P0})
    limit_s = member.parts.config.settings.max_poll_interval_s
    _turn_for(group, 1.5 * limit_s)
    found = [each for each in member.events if isinstance(each, events.HandlerTooSlow)]
    assert [(*_P0, 0)] == [each.place for each in found]
    assert [0, 1, 2] == _attempted(group, _P1)


def test_a_machine_that_slept() -> None:
    """No handler has hung for as long as nothing ran at all."""
    group = _group(concurrency=2)
    member = _joined(group)
    member.workers.busy = {_P0, _P1}
    _turn_until(group, {_P0, _P1})
    group.turn()
    group.fake.clock.advance(5 * member.parts.config.settings.max_poll_interval_s)
    group.turn(5)
    assert [] == [each for each in member.events if isinstance(each, events.HandlerTooSlow)]
    member.workers.busy.clear()
    group.finish()
    assert [] == group.violations()


@pytest.mark.parametrize(("busy", "for_limits"), [({_P0, _P1}, 1.1), ({_P0}, 3.1)])
def test_too_many_hang(busy: set[Partition], for_limits: float) -> None:
    """Half of the workers, or one for three times as long: it gives up its partitions, and ends."""
    group = _group()
    member = _joined(group)
    member.workers.busy = busy
    _turn_until(group, busy)
    limit_s = member.parts.config.settings.max_poll_interval_s
    with pytest.raises(HandlerTooSlowError, match=f"{len(busy)} of 4 workers hang"):
        _turn_for(group, for_limits * limit_s)
    assert () == member.parts.assignment.partitions


@pytest.mark.parametrize(
    ("options", "rule"),
    [
        ({"concurrency": 0}, "a whole number from 1 to 256"),
        ({"concurrency": 257}, "a whole number from 1 to 256"),
        ({"concurrency": True}, "a whole number from 1 to 256"),
        ({"concurrency": 2.0}, "a whole number from 1 to 256"),
        ({"concurrency": 2}, 'write scope="partition"'),
        ({"concurrency": 2, "scope": "topic"}, 'write scope="partition"'),
    ],
)
def test_what_cannot_be_side_by_side(fake: FakeKafka, options: dict[str, Any], rule: str) -> None:
    """Refused with the reason, and what to write."""
    with pytest.raises(ConfigurationError, match=rule):
        consumer_on(fake, **options)


def test_only_run_is_side_by_side(fake: FakeKafka) -> None:
    """The other ways to run it attempt one message at a time, and say so."""
    made: LinearConsumer = consumer_on(fake, scope="partition", concurrency=2)
    for use in (lambda: next(iter(made)), lambda: made.run_batches(lambda _: None)):
        with pytest.raises(UsageError, match="use run, or concurrency=1"):
            use()
    made.close()


def test_an_error_ends_it_and_it_goes_on() -> None:
    """What other workers have done by then is done, and what they have not is next: a second run
    neither repeats nor passes over anything."""
    group = _group(on_permanent="stop")
    member = _joined(group)
    group.dependency.refuses = {(0, 0)}
    member.workers.late = {_P1, _P2}
    _turn_until(group, {_P0, _P1, _P2})
    with pytest.raises(PermanentError):
        group.turn(50)
    group.dependency.refuses = set()
    member.workers.late = set()
    group.finish()
    assert [0, 0, 1, 2] == _attempted(group, _P0)
    for partition in (_P1, _P2, _P3):
        assert [0, 1, 2] == _attempted(group, partition)


def test_an_error_while_a_probe_succeeds() -> None:
    """Its message is done, and not attempted again, though its circuit is still open."""
    group = _group(on_permanent="stop", strategy=[0.2])
    member = _joined(group)
    group.dependency.down_for = {_P1}
    group.dependency.refuses = {(0, 0)}
    member.workers.busy = {_P0}
    while not list(member.circuits):
        group.turn()
    group.dependency.down_for = set()
    member.workers.late = {_P1}
    _turn_until(group, {_P0, _P1})
    member.workers.busy = set()
    with pytest.raises(PermanentError):
        group.turn(50)
    group.dependency.refuses = set()
    member.workers.late = set()
    group.finish()
    assert [0, 0, 1, 2] == _attempted(group, _P1) == _attempted(group, _P0)


def test_a_handler_that_exits_during_a_revoke() -> None:
    """The partitions are given back first, and then the program ends as it wants to."""
    group = _group()
    first = _joined(group)
    first.workers.busy = {_P0}
    _turn_until(group, {_P0})
    first.workers.busy = set()
    first.workers.late = {*group.partitions}
    group.dependency.raises_once = [SystemExit(3)]
    group.join()
    group.share([1, 1, 1, 1])
    with pytest.raises(SystemExit):
        group.turn(20)
    assert () == first.parts.assignment.partitions
