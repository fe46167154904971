"""Whoever is struck, and wherever: nothing is lost, and only a whole batch is sent again."""

import signal
from collections.abc import Callable, Iterable, Iterator
from dataclasses import asdict
from pathlib import Path
from typing import Any, TypeAlias

import pytest

from tests.conftest import TopicFactory
from tests.kafka_operations import wait_until
from tests.scenarios.process import Process
from tests.store.sender.scene import LEASE_S, Scene
from tests.store.sender.struck.child import Role
from tests.store.sender.struck.points import POINTS, Point
from tests.torture.struck.moments import Blow

pytestmark = pytest.mark.broker

_MESSAGES = 2_400

Striking: TypeAlias = Callable[..., Process]
"""Returns a process that was struck at this point."""


def _on_stores(points: Iterable[Point]) -> list[Any]:
    """Each on PostgreSQL, and on SQLite those at which the stores differ: around the deletion."""
    sqlite = [each for each in points if each.repeats and each.nth == each.partitions == 1]
    pairs = [*(("postgres", each) for each in points), *(("sqlite", each) for each in sqlite)]
    return [
        pytest.param(
            store, each, id=f"{store}-{each.moment.replace(' ', '-')}-{each.nth}-{each.partitions}"
        )
        for store, each in pairs
    ]


@pytest.fixture
def strike(scene: Scene, store_url: str, tmp_path: Path) -> Iterator[Striking]:
    """Processes that send from the scene's store; none outlives the test."""
    made: list[Process] = []

    def struck(point: Point, number: signal.Signals, lease_s: float = LEASE_S) -> Process:
        file = tmp_path / "struck"
        blow = Blow(point.moment, str(file), "", point.nth, number)
        role = Role(store_url, scene.kafka.client_settings(), asdict(blow), lease_s=lease_s)
        module = "tests.store.sender.struck.child"
        process = Process(role, tmp_path / "stderr", lambda: None, module)
        made.append(process)
        wait_until(
            lambda: file.exists() or process.has_ended,
            "it comes to its point",
            process.stderr,
        )
        assert file.exists(), process.stderr()
        return process

    yield struck
    for process in made:
        process.kill()


@pytest.mark.parametrize(("store_url", "point"), _on_stores(POINTS), indirect=["store_url"])
def test_a_killed_sender_loses_nothing(
    scene: Scene, topic: TopicFactory, strike: Striking, point: Point
) -> None:
    """Its heir sends the rest in order, and repeats at most what was not deleted yet."""
    name = topic(point.partitions)
    scene.add_numbers(name, range(_MESSAGES), partitions=point.partitions)
    assert -signal.SIGKILL == strike(point, signal.SIGKILL).exit_code()
    scene.send_all(scene.sender())
    repeated = _repeated(scene, name, point.partitions)
    assert point.repeats or not repeated


def test_a_process_that_was_killed_here_holds_no_lease(
    scene: Scene, topic: TopicFactory, strike: Striking
) -> None:
    """After `kill -9` of the only scheduler its messages waited until its leases had run out."""
    name, an_hour_s = topic(3), 3600.0
    scene.add_numbers(name, range(_MESSAGES), partitions=3)
    strike(Point("after the commit of leases"), signal.SIGKILL, an_hour_s).exit_code()
    scene.send_all(scene.sender(lease_s=an_hour_s))
    assert not _repeated(scene, name, 3)


_SUSPENDED = (
    Point("after the commit of leases", partitions=3),
    Point("after init_transactions"),
    Point("after begin_transaction"),
    Point("before commit_transaction"),
    Point("before commit_transaction", repeats=True, partitions=3),
    Point("after commit_transaction", repeats=True),
)


@pytest.mark.parametrize(("store_url", "point"), _on_stores(_SUSPENDED), indirect=["store_url"])
def test_a_suspended_sender_is_fenced(
    scene: Scene, topic: TopicFactory, strike: Striking, point: Point
) -> None:
    """Past its lease another sends; woken up it sends nothing of its old batch."""
    name = topic(point.partitions)
    scene.add_numbers(name, range(_MESSAGES), partitions=point.partitions)
    process = strike(point, signal.SIGSTOP)
    heir = scene.sender()
    scene.send_all(heir)
    scene.received(name, _MESSAGES)
    process.signal(signal.SIGCONT)

    def is_back() -> bool:
        scene.step(heir)
        return scene.shares() == [4, 4]

    wait_until(is_back, "the woken one has its share", detail=process.stderr)
    scene.add_numbers(name, range(_MESSAGES, _MESSAGES + 300), partitions=point.partitions)
    scene.send_all(heir)
    repeated = _repeated(scene, name, point.partitions, _MESSAGES + 300)
    assert point.repeats or not repeated
    process.signal(signal.SIGTERM)
    assert 0 == process.exit_code()


def _repeated(scene: Scene, topic: str, partitions: int, count: int = _MESSAGES) -> set[int]:
    """The numbers that were sent twice; all were sent, in order, and with one id each."""
    wait_until(lambda: len(_first(scene, topic)) == count, f"{count} are visible")
    found = scene.kafka.read(topic)
    repeated: set[int] = set()
    for partition in range(partitions):
        numbers = [int(each.value() or b"") for each in found if each.partition() == partition]
        once = list(dict.fromkeys(numbers))
        assert list(range(partition, count, partitions)) == once
        first = {number: n for n, number in reversed([*enumerate(numbers)])}
        twice = [number for n, number in enumerate(numbers) if n > first[number]]
        # A whole batch, right after itself: what is left of it has an end, and no holes.
        if twice:
            start = numbers.index(twice[0])
            assert numbers[start : start + 2 * len(twice)] == twice * 2
        repeated |= {*twice}
    for each in found:
        assert [("retry-id", b"id-%s" % (each.value() or b""))] == each.headers()
    return repeated


def _first(scene: Scene, topic: str) -> set[bytes | None]:
    return {each.value() for each in scene.kafka.read(topic)}
