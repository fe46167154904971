"""All consumers of an event loop hear a signal."""

import asyncio
import os
import signal
import threading
from collections.abc import Callable, Iterator

import pytest

from linear_retry.consumer.ownership.stop import stopping_async_on_signals, stopping_on_signals
from linear_retry.kafka import Message
from tests.consumer.ownership.test_stop import Stops
from tests.consumer.runners.async_life import Life, awaiting, forever
from tests.fake.cluster import FakeKafka

_BOTH = (signal.SIGINT, signal.SIGTERM)


@pytest.fixture(autouse=True)
def pythons_own() -> Iterator[None]:
    """Nobody has installed anything; afterwards it is as it was before."""
    before = {number: signal.getsignal(number) for number in _BOTH}
    signal.signal(signal.SIGINT, signal.default_int_handler)
    signal.signal(signal.SIGTERM, signal.SIG_DFL)
    yield
    for number, handler in before.items():
        signal.signal(number, handler)


def send(number: int = signal.SIGTERM) -> None:
    os.kill(os.getpid(), number)
    signal.getsignal(number)  # a handler runs between two bytecodes: by now it has


def installed() -> list[object]:
    return [signal.getsignal(number) for number in _BOTH]


@pytest.mark.parametrize("first", _BOTH)
@pytest.mark.parametrize("second", _BOTH)
def test_the_first_two_stop(first: int, second: int) -> None:
    """Whichever they are; then both are what they were before."""
    stops = Stops()
    with stopping_async_on_signals(stops):
        send(first)
        assert 1 == stops.count
        send(second)
        assert [signal.default_int_handler, signal.SIG_DFL] == installed()
    assert 2 == stops.count


def test_after_it_signals_are_what_they_were() -> None:
    """After an exception too."""
    with pytest.raises(LookupError), stopping_async_on_signals(Stops()):
        raise LookupError
    assert [signal.default_int_handler, signal.SIG_DFL] == installed()


def test_all_receive_it() -> None:
    """Two consumers on one loop: only the one that had begun last was told."""
    first, second = Stops(), Stops()
    with stopping_async_on_signals(first), stopping_async_on_signals(second):
        send()
        assert (1, 1) == (first.count, second.count)
        send()
        assert (2, 2) == (first.count, second.count)
    assert [signal.default_int_handler, signal.SIG_DFL] == installed()


def test_they_end_in_any_order() -> None:
    """The first to begin is the first to end: it put back what it had found, and the other one
    heard nothing; then that one put back the handler of the first, for ever."""
    first, second = Stops(), Stops()
    one, other = stopping_async_on_signals(first), stopping_async_on_signals(second)
    one.__enter__()
    other.__enter__()
    one.__exit__(None, None, None)
    send()
    assert (0, 1) == (first.count, second.count)
    other.__exit__(None, None, None)
    assert [signal.default_int_handler, signal.SIG_DFL] == installed()


def test_one_that_begins_after_a_signal() -> None:
    """It has its own two."""
    first, second = Stops(), Stops()
    with stopping_async_on_signals(first):
        send()
        with stopping_async_on_signals(second):
            send()
            send()
        assert (2, 2) == (first.count, second.count)


def test_a_handler_of_the_programs_own() -> None:
    """It is left alone: a web server on the same loop did not learn that it had to end."""
    received: list[int] = []
    signal.signal(signal.SIGTERM, lambda number, _: received.append(number))
    stops = Stops()
    with stopping_async_on_signals(stops):
        send(signal.SIGTERM)
        assert (0, [signal.SIGTERM]) == (stops.count, received)
        send(signal.SIGINT)
        assert 1 == stops.count


def test_a_handler_that_the_program_installs_meanwhile() -> None:
    """It is there afterwards."""

    def own(*_: object) -> None:
        """Of a server that was started later."""

    with stopping_async_on_signals(Stops()):
        signal.signal(signal.SIGTERM, own)
    assert [signal.default_int_handler, own] == installed()


def test_an_ignored_signal_stays_ignored() -> None:
    """A shell has its background jobs ignore Ctrl-C."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    stops = Stops()
    with stopping_async_on_signals(stops):
        send(signal.SIGINT)
    assert (0, signal.SIG_IGN) == (stops.count, signal.getsignal(signal.SIGINT))


def test_within_a_plain_run() -> None:
    """From within the handler of a consumer's `run`: its signals are its own."""
    inner, outer = Stops(), Stops()
    with stopping_on_signals(outer):
        with stopping_async_on_signals(inner):
            send()
        assert (0, 1) == (inner.count, outer.count)


def test_in_another_thread_nothing_is_changed() -> None:
    """Python allows handlers in the main thread only; elsewhere someone has to call `stop`."""
    before = installed()

    def run() -> None:
        with stopping_async_on_signals(Stops()):
            assert before == installed()
        done.append(True)

    done: list[bool] = []
    thread = threading.Thread(target=run)
    thread.start()
    thread.join()
    assert [True] == done


def test_left_in_another_thread() -> None:
    """A loop is thrown away by another thread, which may put nothing back: the next signal does,
    and acts as it did before."""
    one = stopping_async_on_signals(Stops())
    one.__enter__()
    thread = threading.Thread(target=one.__exit__, args=(None, None, None))
    thread.start()
    thread.join()
    with pytest.raises(KeyboardInterrupt):
        send(signal.SIGINT)
    assert [signal.default_int_handler, signal.SIG_DFL] == installed()


def test_ctrl_c_under_asyncio_run(fake: FakeKafka) -> None:
    """The handler in hand is finished, and nothing is raised: it takes the place of asyncio.run's
    own handler, which cancels the main task."""
    life = Life(fake)

    async def handle(_: Message) -> None:
        if life.done == 2:
            send(signal.SIGINT)
            await asyncio.sleep(0.01)

    awaiting(life.run(handle))
    assert (3, 3, True) == (life.done, life.committed, life.closed)
    assert [] == life.violations()


@pytest.mark.parametrize("number", _BOTH)
def test_twice_under_asyncio_run(fake: FakeKafka, number: int) -> None:
    """The second cancels the handler, and nothing is raised."""
    life = Life(fake)

    async def handle(_: Message) -> None:
        if life.done == 2:
            send(number)
            send(number)
            await forever()

    awaiting(life.run(handle))
    assert (2, 2, True) == (life.done, life.committed, life.closed)


def test_three_times_under_asyncio_run(fake: FakeKafka) -> None:
    """A handler that does not mind being cancelled: the third Ctrl-C is asyncio.run's."""
    life = Life(fake)

    async def handle(_: Message) -> None:
        send(signal.SIGINT)
        send(signal.SIGINT)
        try:
            await forever()
        except asyncio.CancelledError:
            send(signal.SIGINT)
            await forever()

    with pytest.raises(KeyboardInterrupt):
        awaiting(life.run(handle))
    assert (0, True) == (life.committed, life.closed)


@pytest.mark.parametrize("way", ["stop", "cancel"])
def test_a_handler_of_the_loops(fake: FakeKafka, way: str) -> None:
    """`loop.add_signal_handler(SIGTERM, consumer.stop)`: the signal counted as two stops, and the
    handler in hand was cancelled by the first."""
    life = Life(fake)

    async def handle(_: Message) -> None:
        if life.done == 2:
            send(signal.SIGTERM)
            await asyncio.sleep(0.05)

    async def main() -> None:
        task = asyncio.current_task()
        assert task is not None
        act: Callable[[], object] = life.consumer.stop if way == "stop" else task.cancel
        asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, act)
        await life.run(handle)

    if way == "stop":
        awaiting(main())
        assert (3, 3) == (life.done, life.committed)
    else:
        with pytest.raises(asyncio.CancelledError):
            awaiting(main())
        assert (2, 2) == (life.done, life.committed)
    assert life.closed


@pytest.mark.parametrize("number", _BOTH)
def test_a_signal_ends_the_block_of_running(fake: FakeKafka, number: int) -> None:
    """After the message in hand, and without an error; then all is as it was before."""
    life = Life(fake)

    async def main() -> None:
        begun = asyncio.Event()

        async def handle(_: Message) -> None:
            begun.set()
            await asyncio.sleep(0)

        async with life.consumer.running(life.watched(handle)):
            await begun.wait()
            send(number)
            await forever()

    awaiting(main())
    assert (life.done, True) == (life.committed, life.closed)
    assert [signal.default_int_handler, signal.SIG_DFL] == installed()
