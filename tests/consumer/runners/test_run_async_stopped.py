"""How `run_async` ends where a stop is asked for."""

import asyncio
import contextlib
import threading

import pytest

from linear_retry import events
from linear_retry.kafka import Message
from tests.consumer.group import PoisonError
from tests.consumer.runners.async_life import Life, awaiting, forever, succeed
from tests.fake.cluster import FakeKafka


@pytest.mark.parametrize("way", ["stop", "close"])
@pytest.mark.parametrize("caller", ["handler", "task", "thread", "listener"])
def test_who_ends_it(fake: FakeKafka, way: str, caller: str) -> None:
    """`stop` and `close` end it after the message in hand, from wherever they are called."""

    def end() -> None:
        getattr(life.consumer, way)()

    def listen(event: events.Event) -> None:
        if caller == "listener" and isinstance(event, events.DeadLettered):
            end()

    life = Life(fake, listeners=[listen])

    async def handle(_: Message) -> None:
        if len(life.begun) != 3:
            return
        match caller:
            case "handler":
                end()
            case "task":
                asyncio.get_running_loop().call_soon(end)
                await asyncio.sleep(0)
            case "thread":
                threading.Thread(target=end).start()
            case _:
                raise PoisonError

    awaiting(life.run(handle))
    assert (len(life.begun), True) == (life.committed, life.closed)
    assert caller == "thread" or 3 == len(life.begun)
    assert [] == life.violations()


def test_close_after_it(fake: FakeKafka) -> None:
    """The thread has closed it: the `with` around has nothing to do, and says no second goodbye."""
    life = Life(fake)

    async def main() -> None:
        with life.consumer:
            await life.run(life.stopping_after(1))

    awaiting(main())
    assert 1 == len(life.emitted(events.Stopped))


def test_a_with_that_is_left_early(fake: FakeKafka) -> None:
    """Left while a task awaits `run_async`, it does not wait for what needs its own loop."""
    life = Life(fake)

    async def main() -> None:
        with life.consumer:
            task = asyncio.create_task(life.run(succeed))
            while not life.begun:
                await asyncio.sleep(0)
        await task

    awaiting(main())
    assert life.closed
    assert [] == life.violations()


def test_stopped_before_it_began(fake: FakeKafka) -> None:
    """A stop that was asked for before is not forgotten."""
    life = Life(fake)
    life.consumer.stop()
    awaiting(life.run(succeed))
    assert ([], True) == (life.begun, life.closed)


def test_a_second_stop_cancels_the_handler(fake: FakeKafka) -> None:
    """It ends without an error; the message in hand is neither done nor failed, and no trace of
    the cancellation is left on the task."""
    life = Life(fake)

    async def handle(_: Message) -> None:
        if life.done == 2:
            life.consumer.stop()
            life.consumer.stop()
            await forever()

    async def main() -> int:
        async with asyncio.timeout(10):
            await life.run(handle)
        task = asyncio.current_task()
        assert task is not None
        return task.cancelling()

    assert 0 == awaiting(main())
    assert (3, 2, True) == (len(life.begun), life.committed, life.closed)
    assert [] == life.violations()


def test_a_second_stop_that_is_swallowed(fake: FakeKafka) -> None:
    """A handler that catches the cancellation, and returns, has handled its message; the task
    stayed half cancelled, and a timeout around it took that for its own."""
    life = Life(fake)

    async def handle(_: Message) -> None:
        life.consumer.stop()
        life.consumer.stop()
        try:
            await forever()
        except asyncio.CancelledError:
            return

    async def main() -> int:
        await life.run(handle)
        task = asyncio.current_task()
        assert task is not None
        return task.cancelling()

    assert 0 == awaiting(main())
    assert (1, 1) == (life.done, life.committed)


def test_a_third_stop(fake: FakeKafka) -> None:
    """A handler that goes on after the second is cancelled once more by the third."""
    life = Life(fake)

    async def handle(_: Message) -> None:
        life.consumer.stop()
        for _number in range(2):
            life.consumer.stop()
            with contextlib.suppress(asyncio.CancelledError):
                await forever()
        life.consumer.stop()
        await forever()

    awaiting(life.run(handle))
    assert (0, 0, True) == (life.done, life.committed, life.closed)


def test_stop_after_it(fake: FakeKafka) -> None:
    """Stops that come when its loop is closed already are for nobody."""
    life = Life(fake)
    awaiting(life.run(life.stopping_after(1)))
    for _ in range(3):
        life.consumer.stop()
