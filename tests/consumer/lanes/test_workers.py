"""The threads that call the handler."""

import math
import os
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import pytest
from confluent_kafka import Message

from linear_retry import UsageError
from linear_retry.consumer.attempts.hand_out import Task
from linear_retry.consumer.lanes.workers import Work, Workers, attempt_work
from linear_retry.consumer.ownership.stop import StopFlag
from linear_retry.consumer.partitions.assignment import Assignment
from linear_retry.consumer.runners.run_handler import Batch, Results
from linear_retry.retry.case import Held
from linear_retry.scope import Partition, Scope
from tests.patience import PATIENCE_S

_PARTITIONS: list[Partition] = [("orders", number) for number in range(4)]


class _Scene:
    """Workers, and an assignment of four partitions in which nothing takes time."""

    def __init__(self, count: int) -> None:
        self.workers = Workers(count)
        self.stop = StopFlag()
        self.stop.allow_until(math.inf)
        self.assignment = Assignment(lambda: 0.0)
        self.assignment.take(_PARTITIONS)

    def work(self, partition: Partition, count: int = 1) -> Work:
        topic, number = partition
        messages = [Message(topic=topic, partition=number, offset=n) for n in range(count)]
        return Work(Task(Batch(messages), 0.0), Scope(*partition), self.assignment, self.stop)

    def begin(self, work: Work, handler: Callable[[Message], object]) -> Work:
        self.workers.begin(work, lambda work: attempt_work(work, handler, lambda: 0.0, Results()))
        return work

    def ended(self) -> Work:
        work = self.workers.ended(PATIENCE_S)
        assert work is not None
        self.workers.conclude(work)
        return work


@contextmanager
def _scene(count: int) -> Iterator[_Scene]:
    scene = _Scene(count)
    yield scene
    scene.workers.close()


def test_as_many_as_there_are_workers_run_at_once() -> None:
    """Each waits for the others: none would end if one thread called them all."""
    with _scene(4) as scene:
        together = threading.Barrier(4)
        for partition in _PARTITIONS:
            assert scene.workers.are_free
            scene.begin(scene.work(partition), lambda _: together.wait(PATIENCE_S))
        assert not scene.workers.are_free
        ended = {scene.ended().partition for _ in _PARTITIONS}
        assert set(_PARTITIONS) == ended
        assert {} == dict(scene.workers.running)


def test_a_failure_comes_back_with_its_work() -> None:
    """Those before it are done, it has failed, and those behind it were not begun."""

    def fail_at_one(message: Message) -> None:
        if message.offset() == 1:
            raise OSError("down")

    with _scene(1) as scene:
        scene.begin(scene.work(_PARTITIONS[0], 3), fail_at_one)
        work = scene.ended()
        batch = work.task.batch
        assert (None, 1, 2) == (work.problem, batch.handled, batch.taken)
        assert "down" == str(batch.error)


def test_what_is_no_failure_ends_the_run() -> None:
    """A handler that returns what would never run, or exits: the owner thread is told."""

    async def later(_: Message) -> None: ...

    def leave(_: Message) -> None:
        raise SystemExit(3)

    with _scene(1) as scene:
        scene.begin(scene.work(_PARTITIONS[0]), later)
        assert isinstance(scene.ended().problem, UsageError)
        scene.begin(scene.work(_PARTITIONS[0]), leave)
        work = scene.ended()
        assert isinstance(work.problem, SystemExit)
        assert 0 == work.task.batch.handled


@pytest.mark.parametrize("how", ["hurry", "stop", "lost"])
def test_nothing_more_is_begun(how: str) -> None:
    """After a revoke, a stop or a loss: the message in hand is finished, and it was the last."""
    with _scene(1) as scene:
        entered, goes_on = threading.Event(), threading.Event()

        def wait(_: Message) -> None:
            entered.set()
            goes_on.wait(PATIENCE_S)

        scene.begin(scene.work(_PARTITIONS[0], 3), wait)
        assert entered.wait(PATIENCE_S)
        match how:
            case "hurry":
                scene.workers.hurry(_PARTITIONS)
            case "stop":
                scene.stop.ask()
            case "lost":
                scene.assignment.drop(_PARTITIONS)
        goes_on.set()
        assert 1 == scene.ended().task.batch.handled


def test_what_waits_for_its_turn_comes_back_as_it_is() -> None:
    """And not a probe: its circuit would wait for what came of it."""
    with _scene(1) as scene:
        entered, goes_on = threading.Event(), threading.Event()
        handled: list[Message] = []

        def wait(message: Message) -> None:
            entered.set()
            goes_on.wait(PATIENCE_S)
            handled.append(message)

        first, waiting, probe = (scene.work(each) for each in _PARTITIONS[:3])
        probe.task.held = Held(probe.task.batch.messages[0], _PARTITIONS[2], 0, 0)
        for work in (first, waiting, probe):
            scene.begin(work, wait)
        assert entered.wait(PATIENCE_S)
        assert [first] == list(scene.workers.attempted)
        scene.workers.take_back()
        assert waiting is scene.ended()
        assert 0 == waiting.task.batch.taken
        goes_on.set()
        assert [first, probe] == [scene.ended(), scene.ended()]
        assert 2 == len(handled)


def test_nothing_is_begun_before_a_failure_is_known() -> None:
    """The bug: what waited for a worker was attempted after a failure, as the owner thread had no
    processor to take it back: an outage cost twice as many attempts. A probe is one in any case."""
    with _scene(1) as scene:
        goes_on, probed = threading.Event(), threading.Event()

        def fail(_: Message) -> None:
            goes_on.wait(PATIENCE_S)
            raise OSError("down")

        failing = scene.begin(scene.work(_PARTITIONS[0]), fail)
        waiting = scene.begin(scene.work(_PARTITIONS[1]), fail)
        probe = scene.work(_PARTITIONS[2])
        probe.task.held = Held(probe.task.batch.messages[0], _PARTITIONS[2], 0, 0)
        scene.begin(probe, lambda _: probed.set())
        goes_on.set()
        assert probed.wait(PATIENCE_S)
        assert [failing, waiting, probe] == [scene.ended() for _ in range(3)]
        assert (1, 0, 1) == tuple(each.task.batch.taken for each in (failing, waiting, probe))
        scene.begin(waiting, lambda _: None)
        assert 1 == scene.ended().task.batch.handled


def test_no_more_threads_than_workers() -> None:
    """Whatever waits for its turn."""
    with _scene(2) as scene:
        before = {*threading.enumerate()}
        goes_on = threading.Event()
        for partition in _PARTITIONS:
            assert scene.workers.may_wait
            scene.begin(scene.work(partition), lambda _: goes_on.wait(PATIENCE_S))
        assert not scene.workers.may_wait
        assert 2 == len({*threading.enumerate()} - before)
        goes_on.set()
        assert set(_PARTITIONS) == {scene.ended().partition for _ in _PARTITIONS}


def test_lost_before_it_was_begun() -> None:
    """Another member may have handled it by now: the handler does not see it."""
    with _scene(1) as scene:
        work = scene.work(_PARTITIONS[0], 3)
        scene.assignment.drop(_PARTITIONS)
        scene.assignment.take(_PARTITIONS)
        seen: list[Message] = []
        scene.begin(work, seen.append)
        assert (0, 0) == (scene.ended().task.batch.taken, len(seen))


def test_a_handler_that_forks() -> None:
    """Its child has one thread, this one, and no client: it begins no further message, and ends."""
    children: list[int] = []

    def fork(_: Message) -> None:
        child = os.fork()
        if child:
            children.append(child)

    with _scene(1) as scene:
        scene.stop.watch_forks()
        scene.begin(scene.work(_PARTITIONS[0], 2), fork)
        assert 2 == scene.ended().task.batch.handled
    assert 2 == len(children)  # one for each message; a child that went on would have forked again
    for child in children:
        os.waitpid(child, 0)


def test_the_threads_end() -> None:
    """None is left behind, and one whose handler hangs does not keep the process alive."""
    before = {*threading.enumerate()}
    with _scene(2) as scene:
        hanging = threading.Event()
        scene.begin(scene.work(_PARTITIONS[0]), lambda _: hanging.wait(PATIENCE_S))
        scene.begin(scene.work(_PARTITIONS[1]), lambda _: None)
        scene.ended()
        begun = {*threading.enumerate()} - before
        assert [True, True] == [thread.daemon for thread in begun]
        scene.workers.close()
        hanging.set()
        for thread in begun:
            thread.join(PATIENCE_S)
        assert [False, False] == [thread.is_alive() for thread in begun]
