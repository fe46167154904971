"""`run_async` on a real broker: the event loop runs on, and the consumer ends as it should."""

import asyncio
import itertools
import os
import signal
import subprocess
import sys
import time
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import aiohttp
import pytest

from linear_retry import LinearConsumer, Strategy, events
from linear_retry.kafka import Message
from linear_retry.retry.clock import SystemClock
from linear_retry.testing import AttemptFinished, AttemptStarted, Entry, EventEmitted, EventLog
from tests import dying_with_parent
from tests.kafka_operations import wait_until
from tests.scenarios.child import Role
from tests.scenarios.conftest import SceneFactory
from tests.scenarios.handlers import OutageError
from tests.scenarios.keep_alive_server import SILENCE_S, serving
from tests.scenarios.process import CHECKOUT
from tests.scenarios.scene import Scene
from tests.scenarios.testimony import read_testimony
from tests.testing.violations import violations

pytestmark = pytest.mark.broker

_SHORT = {"session.timeout.ms": 1000, "max.poll.interval.ms": 2000}


class Awaited:
    """A member on the loop of the test."""

    def __init__(self, scene: Scene, name: str = "first", **options: Any) -> None:
        self._scene = scene
        self.witness = EventLog(SystemClock().now_s)
        self.consumer = LinearConsumer(
            scene.config(name, **options.pop("config", {})),
            [scene.topic],
            strategy=Strategy(scene.strategy),
            transient=OutageError,
            dead_letters=scene.letters,
            listeners=[self.witness.listener(name), *options.pop("listeners", ())],
            **options,
        )
        self._name = name

    async def run(self, act: Callable[[Message], Awaitable[object]]) -> None:
        """`run_async`, watched."""
        await self.consumer.run_async(self.witness.async_handler(self._name, act))

    def said(self, kind: type[events.Event]) -> list[events.Event]:
        said = [entry.event for entry in self.witness.entries if isinstance(entry, EventEmitted)]
        return [event for event in said if isinstance(event, kind)]

    def violations(self, *, finished: bool = False) -> list[str]:
        return _violations(self._scene, self.witness.entries, finished=finished)


def _violations(scene: Scene, log: list[Entry], *, finished: bool = False) -> list[str]:
    return violations(
        log,
        scene.visible(),
        committed=scene.committed(),
        strategy_length=len(scene.strategy),
        finished=finished,
    )


@pytest.mark.parametrize("others", [True, False], ids=["used meanwhile", "not used meanwhile"])
def test_a_keep_alive_session_survives_a_pause(scene: SceneFactory, others: bool) -> None:
    """One TCP connection serves the handler before and after a pause three times as long as what
    the server bears of silence, because other tasks use it meanwhile; else it is another one."""
    group = scene(strategy=[3 * SILENCE_S])
    group.produce(3)
    member = Awaited(group)
    ticked_s: list[float] = []

    async def tick(session: aiohttp.ClientSession) -> None:
        while True:
            async with session.get("/tick"):
                ticked_s.append(time.monotonic())
            await asyncio.sleep(SILENCE_S / 5)

    async def main(url: str) -> None:
        calls = 0

        async def handle(message: Message) -> None:
            nonlocal calls
            calls += 1
            async with session.get("/charge"):
                if calls == 2:
                    raise OutageError
            if message.offset() == 2:
                member.consumer.stop()

        one = aiohttp.TCPConnector(limit=1)
        async with aiohttp.ClientSession(url, connector=one) as session:
            ticking = [asyncio.create_task(tick(session))] if others else []
            await member.run(handle)
            for task in ticking:
                task.cancel()

    with serving() as served:
        asyncio.run(main(served.url))
    before, after = served.ports_of("/charge")[:2], served.ports_of("/charge")[2:]
    assert (2, 2) == (len(before), len(after))
    assert (1 if others else 2) == len({*before, *after})
    longest_s = max((b - a for a, b in itertools.pairwise(ticked_s)), default=0)
    assert longest_s < SILENCE_S
    assert [] == member.violations(finished=True)


def test_a_timeout_while_a_circuit_is_open(scene: SceneFactory) -> None:
    """Cancelled in a pause: what is done is committed, and the group left, when it ends."""
    group = scene(strategy=[3600])
    group.produce(3)
    opened = asyncio.Event()

    def listen(event: events.Event) -> None:
        if isinstance(event, events.CircuitOpened):
            loops[0].call_soon_threadsafe(opened.set)

    loops: list[asyncio.AbstractEventLoop] = []
    member = Awaited(group, listeners=[listen])

    async def handle(message: Message) -> None:
        if message.offset() == 2:
            raise OutageError

    async def main() -> None:
        loops.append(asyncio.get_running_loop())
        async with asyncio.timeout(None) as timeout:
            running = asyncio.create_task(_then(opened, timeout))
            await member.run(handle)
        await running

    with pytest.raises(TimeoutError):
        asyncio.run(main())
    assert {(group.topic, 0): 2} == group.committed()
    assert [] == group.kafka.group_members(group.group)
    assert [] == member.violations()


async def _then(event: asyncio.Event, timeout: asyncio.Timeout) -> None:
    await event.wait()
    timeout.reschedule(0)


def test_a_loop_that_is_blocked(scene: SceneFactory) -> None:
    """Somebody else blocks the loop for longer than max.poll.interval.ms: nothing is stored of
    what was in hand, nothing is begun that was handed over before, all is attempted anew."""
    group = scene()
    group.produce(3)
    member = Awaited(group, config=_SHORT)

    async def handle(message: Message) -> None:
        if message.offset() == 1 and not member.said(events.HandlerTooSlow):
            asyncio.get_running_loop().call_soon(time.sleep, 3)
            await asyncio.sleep(0.01)
        if message.offset() == 2:
            member.consumer.stop()

    asyncio.run(member.run(handle))
    assert 1 == len(member.said(events.HandlerTooSlow))
    assert {(group.topic, 0): 3} == group.committed()
    assert [] == member.violations(finished=True)


class Child:
    """A process with a member that hangs in, or holds, the message at offset 2."""

    def __init__(self, process: subprocess.Popen[str], scene: Scene, testimony: Path) -> None:
        self._scene = scene
        self._testimony = testimony
        self._process = process

    def signal(self, number: int) -> None:
        self._process.send_signal(number)

    def end(self) -> tuple[int, str]:
        """Its exit code, and what it wrote on stderr."""
        errors = self._process.communicate(timeout=10)[1]
        return self._process.returncode, errors

    def log(self) -> list[Entry]:
        return read_testimony(self._testimony)

    def ended(self) -> list[str]:
        """How each attempt ended, in order."""
        return [entry.outcome for entry in self.log() if isinstance(entry, AttemptFinished)]

    def violations(self) -> list[str]:
        return _violations(self._scene, self.log())


@contextmanager
def child(scene: Scene, directory: Path, step: str, **options: Any) -> Iterator[Child]:
    scene.produce(4)
    role = Role(
        member="child",
        testimony=str(directory / "child.testimony"),
        config=scene.config("child"),
        topics=[scene.topic],
        strategy=scene.strategy,
        script={"0@2": [step]},
        options={"dead_letters": scene.letters, **options},
    )
    guard = [sys.executable, "-I", "-S", dying_with_parent.__file__, str(os.getpid())]
    module = [sys.executable, "-W", "error", "-m", "tests.scenarios.async_child", role.to_json()]
    with subprocess.Popen(
        [*guard, *module],
        cwd=CHECKOUT,
        stdin=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        text=True,
        process_group=0,
    ) as process:
        try:
            yield Child(process, scene, directory / "child.testimony")
        finally:
            process.kill()


def _begun(one: Child) -> int:
    return sum(isinstance(entry, AttemptStarted) for entry in one.log())


def test_told_once(scene: SceneFactory, tmp_path: Path) -> None:
    """The handler in hand is finished and its message committed; `asyncio.run` returns."""
    group, gate = scene(), tmp_path / "gate"
    with child(group, tmp_path, f"gate {gate}") as one:
        wait_until(gate.exists, "it has begun the message")
        one.signal(signal.SIGINT)
        gate.unlink()
        assert (0, "returned\n") == one.end()
    assert ["done"] * 3 == one.ended()
    assert {(group.topic, 0): 3} == group.committed()
    assert [] == group.kafka.group_members(group.group)
    assert [] == one.violations()


def test_told_twice(scene: SceneFactory, tmp_path: Path) -> None:
    """The second cancels the handler, nothing is stored for its message; `asyncio.run` returns."""
    group, hanging = scene(), tmp_path / "hanging"
    with child(group, tmp_path, f"hang {hanging}") as one:
        wait_until(hanging.exists, "it hangs")
        one.signal(signal.SIGTERM)
        # Two signals at once are one, for the kernel: the other of the two is not.
        one.signal(signal.SIGINT)
        assert (0, "returned\n") == one.end()
    assert ["done", "done", "interrupted"] == one.ended()
    assert {(group.topic, 0): 2} == group.committed()
    assert [] == one.violations()


def test_told_by_a_handler_of_the_loops(scene: SceneFactory, tmp_path: Path) -> None:
    """`loop.add_signal_handler(SIGTERM, consumer.stop)` is one stop: the handler is finished."""
    group, gate, told = scene(), tmp_path / "gate", tmp_path / "told"
    with child(group, tmp_path, f"gate {gate}", own_handler=str(told)) as one:
        wait_until(gate.exists, "it has begun the message")
        one.signal(signal.SIGTERM)
        wait_until(told.exists, "its loop has called the handler")
        gate.unlink()
        assert (0, "returned\n") == one.end()
    assert ["done"] * 3 == one.ended()
    assert {(group.topic, 0): 3} == group.committed()
    assert [] == one.violations()
