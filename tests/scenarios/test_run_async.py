"""`run_async` on a real broker: the event loop runs on, and the consumer ends as it should."""

import asyncio
import itertools
import time
from collections.abc import Awaitable, Callable
from contextlib import AbstractAsyncContextManager
from typing import Any

import aiohttp
import pytest

from linear_retry import LinearConsumer, Strategy, events
from linear_retry.kafka import Message
from linear_retry.retry.clock import SystemClock
from linear_retry.testing import Entry, EventEmitted, EventLog
from tests.scenarios.conftest import SceneFactory
from tests.scenarios.handlers import OutageError
from tests.scenarios.keep_alive_server import SILENCE_S, serving
from tests.scenarios.scene import Scene
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

    def run_beside(
        self, act: Callable[[Message], Awaitable[object]]
    ) -> AbstractAsyncContextManager[LinearConsumer]:
        """`running`, watched."""
        return self.consumer.running(self.witness.async_handler(self._name, act))

    def emitted(self, kind: type[events.Event]) -> list[events.Event]:
        emitted = [entry.event for entry in self.witness.entries if isinstance(entry, EventEmitted)]
        return [event for event in emitted if isinstance(event, kind)]

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
    """One TCP connection serves the handler before and after a pause twice as long as what the
    server bears of silence, because other tasks use it meanwhile; else it is another one."""
    group = scene(strategy=[2 * SILENCE_S])
    group.produce(3)
    member = Awaited(group)
    ticked_s: list[float] = []

    async def tick(session: aiohttp.ClientSession) -> None:
        while True:
            async with session.get("/tick"):
                ticked_s.append(time.monotonic())
            await asyncio.sleep(SILENCE_S / 15)

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


def test_a_loop_that_is_blocked(scene: SceneFactory) -> None:
    """Somebody else blocks the loop for longer than max.poll.interval.ms: nothing is stored of
    what was in hand, nothing is begun that was handed over before, all is attempted again."""
    group = scene()
    group.produce(3)
    member = Awaited(group, config=_SHORT)

    async def handle(message: Message) -> None:
        if message.offset() == 1 and not member.emitted(events.HandlerTooSlow):
            asyncio.get_running_loop().call_soon(time.sleep, 3)
            await asyncio.sleep(0.01)
        if message.offset() == 2:
            member.consumer.stop()

    asyncio.run(member.run(handle))
    assert 1 == len(member.emitted(events.HandlerTooSlow))
    assert {(group.topic, 0): 3} == group.committed()
    assert [] == member.violations(finished=True)


def test_beside_a_block(scene: SceneFactory) -> None:
    """`running` commits and leaves the group at the end of its block: the next member goes on
    where it ended."""
    group = scene()
    group.produce(3)
    first, second = Awaited(group), Awaited(group, "second")

    async def consume(member: Awaited, last: int) -> None:
        done = asyncio.Event()

        async def handle(message: Message) -> None:
            if message.offset() == last:
                done.set()

        async with member.run_beside(handle):
            await done.wait()

    asyncio.run(consume(first, 2))
    group.produce(2)
    asyncio.run(consume(second, 4))
    assert {(group.topic, 0): 5} == group.committed()
    both = [*first.witness.entries, *second.witness.entries]
    assert [] == _violations(group, both, finished=True)
