"""Partitions that are handled side by side on a real broker, while members come, go and die."""

import threading
import time
from collections import Counter

import pytest

from linear_retry import DeadLetters, events
from linear_retry.kafka import Message
from linear_retry.testing import AttemptFinished, AttemptStarted, Entry
from tests.kafka_operations import wait_until
from tests.patience import PATIENCE_S
from tests.scenarios.conftest import SceneFactory
from tests.scenarios.handlers import OutageError, PoisonError
from tests.scenarios.protocols import each_protocol, soon_missed
from tests.testing.violations import done_places

pytestmark = pytest.mark.broker

_PARTITIONS, _WORKERS = 8, 4
_SIDE_BY_SIDE = {"scope": "partition", "concurrency": _WORKERS}


class _Slow:
    """A handler that takes a millisecond, and fails for the partitions that are down."""

    def __init__(self) -> None:
        self.down: set[int] = set()
        self.refuses: set[tuple[int, int]] = set()

    def __call__(self, message: Message) -> None:
        time.sleep(0.001)
        number, offset = message.partition() or 0, message.offset() or 0
        if (number, offset) in self.refuses:
            raise PoisonError("poison")
        if number in self.down:
            raise OutageError("down")


def _most_at_once(log: list[Entry]) -> int:
    """How many attempts of one member ran at the same time, at most."""
    running, most = Counter[str](), 0
    for entry in log:
        match entry:
            case AttemptStarted():
                running[entry.member] += 1
                most = max(most, running[entry.member])
            case AttemptFinished():
                running[entry.member] -= 1
    return most


@each_protocol
def test_members_come_and_go(protocol: dict[str, str], scene: SceneFactory) -> None:
    """Side by side, each partition in its order; one that waits stops nobody; a revoke in good
    order repeats nothing."""
    group = scene(_PARTITIONS, config=protocol, strategy=[0.1])
    dependency = _Slow()
    options = {**_SIDE_BY_SIDE, "on_exhausted": "repeat"}
    first = group.join("first", dependency, **options)
    group.wait_for(events.Assigned)
    for number in range(_PARTITIONS):
        group.produce(300, number)
    group.wait_for_attempts(200)
    dependency.down = {0}
    second = group.join("second", dependency, **options)
    group.wait_for(events.Assigned, member="second")
    wait_until(
        lambda: any(place[1] == 0 for place in group.failed()), "one waits", detail=group.story
    )
    wanted = {place for place, found in group.visible().items() if place[1] != 0}
    wait_until(
        lambda: wanted <= {place[:2] for place in done_places(group.log()) if place[2] == 299},
        "the others go on",
        detail=group.story,
    )
    second.stop()
    dependency.down = set()
    group.wait_until_done()
    first.stop()
    assert [] == group.violations()
    assert _most_at_once(group.log()) > 1
    assert [] == [place for place, times in Counter(group.handled()).items() if times > 1]
    assert [] == group.emitted(events.Lost)


def test_killed_at_full_work(scene: SceneFactory) -> None:
    """Nothing is lost, and each partition goes on from a place in its order."""
    group = scene(_PARTITIONS, strategy=[0.1])
    killed = group.spawn("killed", {"0@40": ["outage"]}, **_SIDE_BY_SIDE)
    group.wait_for(events.Assigned)
    for number in range(_PARTITIONS):
        group.produce(400, number)
    group.wait_for_attempts(500)
    killed.kill()
    heir = group.join("heir", _Slow(), **_SIDE_BY_SIDE)
    ends = {(group.topic, number): 400 for number in range(_PARTITIONS)}
    wait_until(lambda: group.committed() == ends, "all is committed", detail=group.story)
    heir.stop()
    assert [] == group.violations()


@pytest.mark.parametrize("transactional", [False, True])
def test_letters_of_several_partitions(
    transactional: bool,
    scene: SceneFactory,
) -> None:
    """Poison in each partition: its letter is there once, and what follows it comes after."""
    group = scene(_PARTITIONS)
    dependency = _Slow()
    dependency.refuses = {(number, offset) for number in range(_PARTITIONS) for offset in (3, 40)}
    for number in range(_PARTITIONS):
        group.produce(60, number)
    letters = DeadLetters(group.letters, transactional=transactional)
    member = group.join("first", dependency, dead_letters=letters, **_SIDE_BY_SIDE)
    group.wait_until_done()
    member.stop()
    places = [
        (letter.original_partition, letter.original_offset) for letter in group.dead_letters()
    ]
    assert sorted(dependency.refuses) == sorted(places)
    assert [] == group.violations()


def test_a_handler_that_outlives_its_revoke(scene: SceneFactory) -> None:
    """Its partition is given back when the time for that is over; what it does then counts for
    nothing, and the others were done and committed."""
    config = soon_missed({"max.poll.interval.ms": 5000})
    group = scene(2, config=config)
    entered, goes_on = threading.Event(), threading.Event()

    def hang(message: Message) -> None:
        if message.partition() == 0:
            entered.set()
            goes_on.wait(PATIENCE_S)

    first = group.join("first", hang, **_SIDE_BY_SIDE)
    group.wait_for(events.Assigned)
    group.produce(3, 0)
    group.produce(3, 1)
    assert entered.wait(PATIENCE_S)
    second = group.join("second", lambda _: None, **_SIDE_BY_SIDE)
    group.wait_for(events.Assigned, member="second")
    first.consumer.stop()
    goes_on.set()
    first.result()
    group.wait_until_done()
    second.stop()
    assert [] == group.violations()
