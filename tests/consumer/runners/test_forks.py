"""A child that is forked inside a handler leaves everything to its parent."""

import asyncio
import gc
import os
import signal
import weakref
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, TypeAlias

import pytest

from linear_retry import UsageError
from linear_retry.consumer.ownership.stop import StopFlag
from linear_retry.kafka import Message
from tests.consumer.group import OutageError
from tests.consumer.runners.async_life import Life
from tests.consumer.runners.own_life import OwnLife
from tests.fake.cluster import FakeKafka
from tests.patience import PATIENCE_S

_Act: TypeAlias = Callable[[Message], object]


class _Forking:
    """Forks in the attempt of this number, 1-based; `child` ends the child, which tells of it."""

    def __init__(self, life: Life, number: int) -> None:
        self._life = life
        self._number = number
        self._pid: int | None = None
        self._read, self._write = os.pipe()

    def __call__(self) -> None:
        """In the handler."""
        if len(self._life.begun) == self._number and self._pid is None:
            self._pid = os.fork()
            if self._pid == 0:
                signal.alarm(5)  # ends a child that hangs

    @property
    def is_child(self) -> bool:
        return self._pid == 0

    @contextmanager
    def ending_the_child(self) -> Iterator[None]:
        """The child goes no further than this."""
        try:
            yield
        except UsageError as error:
            if not self.is_child:
                raise
            self.report(error)
        finally:
            if self.is_child:
                self.report(None)

    def report(self, end: object) -> None:
        """In the child: what its `run` has ended with, and how many attempts were begun."""
        story = f"{type(end).__name__}, {len(self._life.begun)} begun, {len(self._life.events)}"
        os.write(self._write, story.encode())
        os._exit(0)

    def reported(self) -> str:
        """In the parent."""
        assert self._pid is not None
        os.waitpid(self._pid, 0)
        os.close(self._write)
        with os.fdopen(self._read, "rb") as pipe:
            return pipe.read().decode()


def _run(life: OwnLife, handle: _Act) -> None:
    life.consumer.run(handle)


def _own_loop(life: OwnLife, handle: _Act) -> None:
    for attempt in life.consumer:
        with attempt as message:
            handle(message)


def _run_async(life: OwnLife, handle: _Act) -> None:
    async def awaited(message: Message) -> None:
        handle(message)

    async def tick() -> None:
        # A child that polls takes its parent's wake-ups away: the parent wakes up by itself.
        while True:
            await asyncio.sleep(0.1)

    async def main() -> None:
        ticking = asyncio.create_task(tick())
        try:
            async with asyncio.timeout(PATIENCE_S):
                await life.consumer.run_async(awaited)
        finally:
            ticking.cancel()

    loop = asyncio.new_event_loop()
    loop.run_until_complete(main())
    loop.close()  # not in the child: it would take the parent's self-pipe out of their epoll


@pytest.mark.filterwarnings("ignore:This process .* is multi-threaded")
@pytest.mark.parametrize(
    ("run", "options"),
    [
        (_run, {}),
        (_own_loop, {}),
        (_run_async, {}),
        (_run_async, {"scope": "partition", "concurrency": 2}),
    ],
)
def test_a_fork_in_the_handler(
    fake: FakeKafka, run: Callable[[OwnLife, _Act], None], options: dict[str, Any]
) -> None:
    """The child gets a `UsageError` before it handles another message, and the parent goes on. The
    bug: in a loop of its own the child handled the rest of the batch as the parent did, and in
    `run` it hung."""
    life = OwnLife(fake, **options)
    fork = _Forking(life, 3)

    def handle(message: Message) -> None:
        life.handle(message, lambda _: fork())
        if not fork.is_child:
            life.stop_after(6)

    with fork.ending_the_child(), life.consumer:
        run(life, handle)
    assert "UsageError, 3 begun, 1" == fork.reported()
    assert (6, 6) == (life.done, life.committed)
    assert [] == life.violations(finished=True)


def test_a_failure_in_the_child(fake: FakeKafka) -> None:
    """Nothing comes of it: no circuit is closed or opened there, and no listener learns of it."""
    life = OwnLife(fake)
    fork = _Forking(life, 2)

    def act(_: Message) -> None:
        fork()
        if len(life.begun) == 1 or fork.is_child:
            raise OutageError

    def handle(message: Message) -> None:
        life.handle(message, act)
        life.stop_after(7)

    with fork.ending_the_child(), life.consumer:
        life.consumer.run(handle)
    assert "UsageError, 2 begun, 2" == fork.reported()
    assert [] == life.violations(finished=True)


def test_what_watches_for_forks_holds_no_consumer() -> None:
    """Python never forgets what is to be called after a fork; the consumer goes all the same."""
    stop = StopFlag()
    stop.watch_forks()
    gone = weakref.ref(stop)
    del stop
    gc.collect()
    assert gone() is None
