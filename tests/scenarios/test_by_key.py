"""Keys that are handled side by side on a real broker: one waits, and the others pass."""

import asyncio
import threading
import time
from collections import Counter
from collections.abc import Callable
from typing import Any

import pytest
from confluent_kafka import Consumer

from linear_retry import DeadLetters, events
from linear_retry.consumer.settings.by_key import ByKey
from linear_retry.consumer.settings.consumer_config import Dependencies
from linear_retry.dlq import DeadLetterTopic
from linear_retry.kafka import Message
from linear_retry.retry.clock import SystemClock
from linear_retry.testing import AttemptStarted, Place
from tests.kafka_operations import wait_until
from tests.patience import PATIENCE_S
from tests.scenarios.conftest import SceneFactory
from tests.scenarios.handlers import OutageError, PoisonError
from tests.scenarios.protocols import COOPERATIVE, KIP_848, each_protocol
from tests.scenarios.scene import Scene

pytestmark = pytest.mark.broker

_PARTITIONS, _WORKERS, _ACCOUNTS = 4, 8, 10
_AT_ONCE = {"concurrency": _WORKERS, "on_exhausted": "repeat"}
_BY_KEY = {"scope": "key", **_AT_ONCE}


class _Bank:
    """A handler that takes a millisecond, and fails for the accounts that are closed."""

    def __init__(self) -> None:
        self.closed: set[bytes] = set()
        self.is_down = False
        self.refuses: set[bytes] = set()
        self._counting = threading.Lock()
        self.failed = Counter[bytes | None]()

    def __call__(self, message: Message) -> None:
        time.sleep(0.001)
        self._serve(message)

    async def awaited(self, message: Message) -> None:
        """The same for `run_async`."""
        await asyncio.sleep(0.001)
        self._serve(message)

    def _serve(self, message: Message) -> None:
        key = message.key()
        if key in self.refuses:
            raise PoisonError("poison")
        if self.is_down or key in self.closed:
            with self._counting:
                self.failed[key] += 1
            raise OutageError("closed")


def _account(partition: int, number: int) -> bytes:
    return b"account %d of %d" % (number, partition)


def _pay(group: Scene, times: int) -> None:
    """So many messages for each account."""
    group.write(
        (partition, _account(partition, number), b"%d" % time_of, ())
        for time_of in range(times)
        for partition in range(_PARTITIONS)
        for number in range(_ACCOUNTS)
    )


def _places_of(group: Scene, wanted: Callable[[bytes | None], bool]) -> set[Place]:
    return {place for place, key in group.keys().items() if wanted(key)}


def _twice(group: Scene) -> list[Place]:
    return [place for place, times in Counter(group.handled()).items() if times > 1]


@each_protocol
def test_however_many_wait_behind_a_closed_account(
    protocol: dict[str, str], scene: SceneFactory
) -> None:
    """The others go on meanwhile; what was not kept is read again, in order, at the next owner too,
    who is killed amid that."""
    group = scene(_PARTITIONS, config=protocol, strategy=[0.1])
    bank = _Bank()
    bank.closed = {_account(0, 3), _account(2, 7)}
    by_key: dict[str, Any] = {"most_bytes": 100}
    options = {"scope": ByKey(**by_key), **_AT_ONCE}
    member = group.join("first", bank, **options)
    group.wait_for(events.Assigned)
    _pay(group, 100)
    others = _places_of(group, lambda key: key not in bank.closed)
    wait_until(lambda: others <= {*group.handled()}, "the others go on", detail=group.story)
    member.stop()
    closed = {f"{number}@{at}": ["outage"] for number, at in ((0, 3), (2, 7))}
    killed = group.spawn("killed", closed, by_key=by_key, **_AT_ONCE)
    group.wait_for_attempts(20, member="killed")
    killed.kill()
    bank.closed = set()
    heir = group.join("heir", bank, **options)
    ends = {(group.topic, number): 100 * _ACCOUNTS for number in range(_PARTITIONS)}
    wait_until(lambda: group.committed() == ends, "all is committed", detail=group.story)
    heir.stop()
    assert [] == group.violations(by_key=True)
    assert others.isdisjoint(_twice(group))


@each_protocol
@pytest.mark.parametrize("is_async", [False, True], ids=["threads", "tasks"])
def test_members_come_and_go(protocol: dict[str, str], is_async: bool, scene: SceneFactory) -> None:
    """Each key in its order; a closed account waits for itself; a revoke in good order, and a stop
    while keys are held, repeat nothing."""
    group = scene(_PARTITIONS, config=protocol, strategy=[0.1])
    bank = _Bank()
    bank.closed = {_account(0, 3), _account(2, 7)}
    handler = bank.awaited if is_async else bank
    first = group.join("first", handler, **_BY_KEY)
    group.wait_for(events.Assigned)
    _pay(group, 20)
    group.wait_for_attempts(100)
    second = group.join("second", handler, **_BY_KEY)
    group.wait_for(events.Assigned, member="second")
    others = _places_of(group, lambda key: key not in bank.closed)
    wait_until(lambda: others <= {*group.handled()}, "the others go on", detail=group.story)
    wait_until(lambda: bank.closed == {*bank.failed}, "two wait", detail=group.story)
    second.stop()
    first.stop()
    third = group.join("third", handler, **_BY_KEY)
    group.wait_for(events.CircuitOpened, times=2, member="third")
    bank.closed = set()
    group.wait_until_done()
    third.stop()
    assert [] == group.violations(by_key=True)
    assert [] == _twice(group)
    assert [] == group.emitted(events.Lost)


class _Teller:
    """A handler whose first account of each partition is served at the end, all others by turns."""

    def __init__(self) -> None:
        self.is_over = threading.Event()
        self.turns = threading.Semaphore(0)

    def __call__(self, message: Message) -> None:
        if message.key() == _account(message.partition() or 0, 0):
            self.is_over.wait(PATIENCE_S)
        else:
            self.turns.acquire(timeout=PATIENCE_S)


@pytest.mark.parametrize("protocol", [COOPERATIVE, KIP_848], ids=["cooperative", "consumer"])
def test_the_partitions_that_stay_are_served_while_others_are_drained(
    protocol: dict[str, str], scene: SceneFactory
) -> None:
    """A handler takes long in one that is revoked; elsewhere what is in memory begins meanwhile,
    and nothing is done twice."""
    group, teller = scene(_PARTITIONS, config=protocol), _Teller()
    revoked_at_s, revoking = list[float](), threading.Event()

    class Noting(Consumer):
        def subscribe(self, *topics: Any, **callbacks: Any) -> None:
            on_revoke = callbacks["on_revoke"]

            def noted(*given: Any) -> None:
                revoked_at_s.append(SystemClock().now_s())
                revoking.set()
                on_revoke(*given)

            super().subscribe(*topics, **(callbacks | {"on_revoke": noted}))

    dependencies = Dependencies(consumer=Noting)
    first = group.join("first", teller, _dependencies=dependencies, **_BY_KEY)
    group.wait_for(events.Assigned)
    _pay(group, 100)

    def first_accounts_are_here() -> bool:
        teller.turns.release(_PARTITIONS)
        begun = {each.place for each in group.log() if isinstance(each, AttemptStarted)}
        return {(group.topic, number, 0) for number in range(_PARTITIONS)} <= begun

    wait_until(first_accounts_are_here, "each partition has its slow handler", detail=group.story)
    second = group.join("second", teller, **_BY_KEY)
    assert revoking.wait(PATIENCE_S)
    teller.turns.release(400)

    def begun() -> list[Place]:
        log = [each for each in group.log() if each.at_s > revoked_at_s[0]]
        return [each.place for each in log if isinstance(each, AttemptStarted)]

    wait_until(lambda: len(begun()) > 200, "others go on", detail=group.story)
    assert [] == group.emitted(events.Revoked)
    meanwhile = begun()
    teller.is_over.set()
    teller.turns.release(100 * _ACCOUNTS * _PARTITIONS)
    revoked = group.wait_for(events.Revoked).partitions
    assert 100 < sum(place[:2] not in revoked for place in meanwhile)
    group.wait_until_done()
    second.stop()
    first.stop()
    assert [] == group.violations(by_key=True)
    assert [] == _twice(group)


def test_killed_at_full_work(scene: SceneFactory) -> None:
    """Nothing is lost, and each key goes on from a place in its order."""
    group = scene(_PARTITIONS, strategy=[0.1])
    killed = group.spawn("killed", {"0@3": ["outage"] * 1000}, **_BY_KEY)
    group.wait_for(events.Assigned)
    _pay(group, 40)
    group.wait_for_attempts(600)
    killed.kill()
    heir = group.join("heir", _Bank(), **_BY_KEY)
    ends = {(group.topic, number): 40 * _ACCOUNTS for number in range(_PARTITIONS)}
    wait_until(lambda: group.committed() == ends, "all is committed", detail=group.story)
    heir.stop()
    assert [] == group.violations(by_key=True)


def test_an_outage_of_all(scene: SceneFactory) -> None:
    """One wide circuit opens, its probes are few, and all goes on at its end."""
    group = scene(_PARTITIONS, strategy=[0.2])
    bank = _Bank()
    member = group.join("first", bank, **_BY_KEY)
    group.wait_for(events.Assigned)
    _pay(group, 5)
    group.wait_for_attempts(60)
    bank.is_down = True
    _pay(group, 5)
    group.wait_for(events.ProbeFailed, times=6)
    bank.is_down = False
    group.wait_until_done()
    member.stop()
    opened = [each for each in group.emitted(events.CircuitOpened) if each.scope.key is None]
    closed = [each for each in group.emitted(events.CircuitClosed) if each.scope.key is None]
    probes = [each for each in group.emitted(events.ProbeFailed) if each.scope.key is None]
    assert len(opened) == len(closed) >= 1
    assert sum(bank.failed.values()) <= len(opened) * (ByKey().trip + _WORKERS) + len(probes)
    assert [] == group.violations(by_key=True)


@pytest.mark.parametrize("transactional", [False, True])
def test_poison_frees_its_key(transactional: bool, scene: SceneFactory) -> None:
    """Each of its messages goes to the dead letters, in order, and nobody else's waits."""
    group = scene(_PARTITIONS, strategy=[0.1])
    letters = {"dead_letters": DeadLetters(group.letters, transactional=transactional)}
    bank = _Bank()
    bank.refuses = {_account(1, 1), _account(3, 9)}
    member = group.join("first", bank, **_BY_KEY, **letters)
    _pay(group, 5)
    group.wait_until_done()
    member.stop()
    found = [
        Place(group.topic, one.original_partition, one.original_offset)
        for one in group.dead_letters()
    ]
    assert sorted(_places_of(group, bank.refuses.__contains__)) == sorted(found)
    assert [] == group.violations(by_key=True)


@each_protocol
def test_poison_blocks_its_key(protocol: dict[str, str], scene: SceneFactory) -> None:
    """Until an operator retries it, at the next owner too; nobody else's waits, and nothing is
    repeated."""
    group = scene(_PARTITIONS, config=protocol, strategy=[0.1])
    bank = _Bank()
    refused = bank.refuses = {_account(1, 1), _account(3, 9)}
    options = {"scope": "key", "concurrency": _WORKERS, "on_permanent": "block"}
    first = group.join("first", bank, **options)
    _pay(group, 5)
    others = _places_of(group, lambda key: key not in refused)
    wait_until(lambda: others <= {*group.handled()}, "the others go on", detail=group.story)
    blocked = [event.place for event in group.emitted(events.KeyBlocked)]
    assert sorted(place.offset for place in blocked) == [1, 9]
    first.stop()
    bank.refuses = set()
    heir = group.join("heir", bank, **options)
    group.wait_for(events.KeyBlocked, 2, member="heir")
    assert [] == group.attempts("heir")
    assert "2 of them blocked" in heir.consumer.health().reason
    assert all(heir.consumer.retry_now(*place).result(PATIENCE_S) for place in blocked)
    group.wait_until_done()
    heir.stop()
    assert [] == _twice(group)
    assert [] == group.violations(by_key=True)


@each_protocol
def test_a_replayed_letter_is_one_more_message_of_its_key(
    protocol: dict[str, str], scene: SceneFactory
) -> None:
    """That of a key that is held waits behind it, and that of another key is handled at once: it
    was "not read yet", as the offset is kept back by the held one."""
    group = scene(1, config=protocol, strategy=[0.1])
    bank = _Bank()
    held, free = _account(0, 0), _account(0, 1)
    bank.refuses = {held, free}
    member = group.join("first", bank, **_BY_KEY)
    group.write([(0, held, b"first", ()), (0, free, b"first", ())])
    group.wait_for(events.DeadLettered, 2)
    bank.refuses, bank.closed = set(), {held}
    group.write([(0, held, b"second", ())])
    group.wait_for(events.CircuitOpened)
    with DeadLetterTopic(group.letters, {"bootstrap.servers": group.kafka.bootstrap}) as letters:
        with letters.plan_replay() as plan:
            begun, names = letters.mark(plan), {entry.name for entry in plan.order}
            assert 2 == letters.replay(plan, by="test")
        wait_until(lambda: letters.outcome(begun, names, 2).handled == 1, "the free one is handled")
        assert [free] == [group.keys()[place] for place in group.handled()]
        bank.closed = set()
        wait_until(lambda: letters.outcome(begun, names, 2).handled == 2, "both are handled")
    member.stop()
    keys = group.keys()
    second, replayed = [place.offset for place in group.handled() if keys[place] == held]
    assert second == 2 < replayed
