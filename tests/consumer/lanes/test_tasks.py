"""Partitions and keys whose handlers are awaited side by side."""

import asyncio
import gc
from collections.abc import Coroutine
from contextvars import ContextVar
from typing import Any

import pytest

from linear_retry import UsageError, events
from linear_retry.kafka import Message
from tests.consumer.group import GROUP, LETTERS, TOPIC, OutageError
from tests.consumer.runners.async_life import Act, Life, awaiting, forever, succeed, threads
from tests.fake.cluster import FakeKafka
from tests.patience import PATIENCE_S

_SIDE_BY_SIDE: dict[str, Any] = {"scope": "partition", "concurrency": 4}
_KEYS: dict[str, Any] = {"scope": "key", "concurrency": 4}


@pytest.fixture
def fake() -> FakeKafka:
    """Four partitions with two messages each."""
    kafka = FakeKafka(balanced=True)
    kafka.create_topic(TOPIC, 4)
    kafka.create_topic(LETTERS, 4)
    for number in range(8):
        kafka.append(TOPIC, number % 4, b"%d" % number, key=b"%d" % number)
    return kafka


def _stopping_at_the_end(life: Life, act: Act = succeed) -> Act:
    """`act`, and a stop once all are done."""

    async def handle(message: Message) -> None:
        await act(message)
        if life.done == 7:
            life.consumer.stop()

    return handle


async def _all_four(life: Life) -> None:
    """Until a handler has a message of each partition."""
    while len(life.begun) < 4:
        await asyncio.sleep(0)


def _play(main: Coroutine[Any, Any, Any]) -> Any:
    async def bounded() -> Any:
        async with asyncio.timeout(PATIENCE_S):
            return await main

    return awaiting(bounded())


def test_one_of_each_partition_at_once(fake: FakeKafka) -> None:
    """Each waits for the others: none would end if they were awaited one after another."""
    life = Life(fake, **_SIDE_BY_SIDE)
    together = asyncio.Barrier(4)

    async def meet(_: Message) -> None:
        await together.wait()

    _play(life.run(_stopping_at_the_end(life, meet)))
    assert (8, 8, True) == (len(life.begun), life.committed, life.closed)
    assert [] == life.violations(finished=True)


def test_a_key_that_fails_waits_and_the_others_go_on(fake: FakeKafka) -> None:
    """As with threads: the message is held by itself, and succeeds at its next attempt."""
    life = Life(fake, **_KEYS)

    async def fail_once(message: Message) -> None:
        if message.key() == b"0" and life.begun.count((0, 0)) == 1:
            raise OutageError

    _play(life.run(_stopping_at_the_end(life, fail_once)))
    assert (9, 8, True) == (len(life.begun), life.committed, life.closed)
    assert life.begun.index((0, 1)) < len(life.begun) - 1 - life.begun[::-1].index((0, 0))


def test_each_has_a_copy_of_the_context(fake: FakeKafka) -> None:
    """What the caller has set is seen; what one sets, by later messages of its lane at most."""
    tenant = ContextVar("tenant", default="nobody")
    life, seen = Life(fake, **_SIDE_BY_SIDE), set[tuple[int | None, str]]()

    async def note(message: Message) -> None:
        seen.add((message.partition(), tenant.get()))
        tenant.set(f"of {message.partition()}")
        await asyncio.sleep(0)

    async def main() -> None:
        tenant.set("the caller")
        await life.run(_stopping_at_the_end(life, note))

    _play(main())
    assert {(number, "the caller") for number in range(4)} <= seen
    assert seen <= {(n, name) for n in range(4) for name in ("the caller", f"of {n}")}


def test_a_second_stop_cancels_all(fake: FakeKafka) -> None:
    """It ends without an error; none of the messages in hand is done, and none has failed."""
    life = Life(fake, **_SIDE_BY_SIDE)

    async def main() -> int:
        run = asyncio.create_task(life.run(forever))
        await _all_four(life)
        life.consumer.stop()
        life.consumer.stop()
        await run
        return run.cancelling()

    assert 0 == _play(main())
    assert (4, 0, True) == (len(life.begun), life.committed, life.closed)
    assert [] == life.emitted(events.CircuitOpened)


def test_a_handler_that_outlasts_the_end(fake: FakeKafka) -> None:
    """A stop waits for it for `close_timeout_s`, and then it is cancelled: nothing is decided about
    its message."""
    life, cancelled = Life(fake, **_SIDE_BY_SIDE, close_timeout_s=5), asyncio.Event()

    async def handle(message: Message) -> None:
        if message.partition() != 0:
            return
        life.consumer.stop()
        try:
            while True:
                fake.clock.advance(0.01)
                await asyncio.sleep(0)
        finally:
            cancelled.set()

    async def main() -> None:
        await life.run(handle)
        await cancelled.wait()

    _play(main())
    assert life.closed
    assert 0 == fake.group(GROUP).get((TOPIC, 0), 0)
    assert [] == life.violations()


def test_a_cancellation_cancels_all(fake: FakeKafka) -> None:
    """What is done is committed, and none of the handlers outlives the call."""
    life, ended = Life(fake, **_SIDE_BY_SIDE), list[int]()

    async def handle(message: Message) -> None:
        if message.offset() == 0:
            return
        try:
            await forever()
        finally:
            ended.append(message.partition() or 0)

    async def main() -> None:
        run = asyncio.create_task(life.run(handle))
        while len(life.begun) < 8:
            await asyncio.sleep(0)
        run.cancel()
        with pytest.raises(asyncio.CancelledError):
            await run

    _play(main())
    assert ([0, 1, 2, 3], 4, True) == (sorted(ended), life.committed, life.closed)


def test_a_handler_that_cancels_its_task(fake: FakeKafka) -> None:
    """It is the end of the call, as where the handler runs in the task that awaits it: its message
    would be attempted again and again."""
    life = Life(fake, **_SIDE_BY_SIDE)

    async def handle(message: Message) -> None:
        if message.partition() != 0:
            await forever()
        task = asyncio.current_task()
        assert task is not None
        task.cancel()
        await forever()

    with pytest.raises(asyncio.CancelledError):
        _play(life.run(handle))
    assert (0, True) == (life.committed, life.closed)


@pytest.mark.parametrize("problem", [SystemExit(3), KeyboardInterrupt()])
def test_what_is_no_failure_ends_all(fake: FakeKafka, problem: BaseException) -> None:
    """It is raised by `run_async` once the others are cancelled; nothing is decided about its
    message."""
    life, cancelled = Life(fake, **_SIDE_BY_SIDE), list[int]()

    async def handle(message: Message) -> None:
        if message.partition() == 0:
            await _all_four(life)
            raise problem
        try:
            await forever()
        except asyncio.CancelledError:
            cancelled.append(message.partition() or 0)
            raise

    async def main() -> None:
        with pytest.raises(type(problem)):
            await life.run(handle)

    _play(main())
    assert ([1, 2, 3], 0, True) == (sorted(cancelled), life.committed, life.closed)
    assert 0 == life.letters


def test_nothing_to_await(fake: FakeKafka) -> None:
    """A plain function would count as done before it is: the call ends, and names its place."""
    life = Life(fake, **_SIDE_BY_SIDE)

    def handle(_: Message) -> Any:
        return None

    async def main() -> None:
        with pytest.raises(UsageError, match="returned nothing to await"):
            await life.consumer.run_async(handle)

    _play(main())
    assert (0, True) == (life.committed, life.closed)


@pytest.mark.parametrize("keep", [True, False])
def test_a_loop_that_is_closed(fake: FakeKafka, keep: bool) -> None:
    """Its tasks kept by somebody, or not: the thread commits what is done, and leaves."""
    life = Life(fake, **_SIDE_BY_SIDE)

    async def handle(message: Message) -> None:
        if message.offset() == 1:
            await forever()

    async def begun() -> None:
        while len(life.begun) < 8:
            await asyncio.sleep(0)

    loop = asyncio.new_event_loop()
    loop.set_exception_handler(lambda *_: None)
    task = loop.create_task(life.run(handle))
    loop.run_until_complete(begun())
    loop.close()
    if not keep:
        del task
        gc.collect()
    for thread in threads():
        thread.join(PATIENCE_S)
    assert ([], 4, True) == (threads(), life.committed, life.closed)
