"""`async with` closes the consumer at its end."""

import asyncio
import types
from collections.abc import Generator

import pytest

from linear_retry import ExhaustedError, UsageError
from linear_retry.kafka import Message
from tests.consumer.group import OutageError
from tests.consumer.runners.async_life import Life, awaiting, succeed
from tests.consumer.runners.own_life import OwnLife
from tests.fake.cluster import FakeKafka


def test_leaving_closes(fake: FakeKafka) -> None:
    """After `run_async` there is nothing left to do."""
    life = Life(fake)

    async def main() -> None:
        async with life.consumer as entered:
            assert entered is life.consumer
            await life.run(life.stopping_after(6, succeed))

    awaiting(main())
    assert (6, True) == (life.committed, life.closed)
    assert [] == life.violations(finished=True)


def test_leaving_ends_what_runs_in_another_task(fake: FakeKafka) -> None:
    """The message in hand is finished on the loop, which is not blocked meanwhile."""
    life = Life(fake)

    async def main() -> None:
        begun, may_end = asyncio.Event(), asyncio.Event()

        async def handle(_: Message) -> None:
            begun.set()
            await may_end.wait()

        async with life.consumer:
            running = asyncio.create_task(life.run(handle))
            await begun.wait()
            asyncio.get_running_loop().call_soon(may_end.set)
        assert life.closed
        await running

    awaiting(main())
    assert (1, 1) == (life.done, life.committed)
    assert [] == life.violations()


def test_a_consumer_that_nobody_has_used(fake: FakeKafka) -> None:
    """It is closed all the same, and cannot be used any more."""
    life = Life(fake)

    async def main() -> None:
        async with life.consumer:
            pass
        await life.run(succeed)

    with pytest.raises(UsageError, match="closed"):
        awaiting(main())


def test_a_loop_of_ones_own_in_a_coroutine(fake: FakeKafka) -> None:
    """Its thread is the owner, and closes: it would wait for itself otherwise."""
    life = OwnLife(fake, on_exhausted="stop", strategy=[])

    async def main() -> None:
        async with life.consumer:
            for attempt in life.consumer:
                with attempt:
                    raise OutageError
                break

    with pytest.raises(ExhaustedError):
        awaiting(main())
    assert life.closed


def test_what_closing_raises_is_added_to_the_error_of_the_body(fake: FakeKafka) -> None:
    """The body's own error goes on, with a note."""
    life = OwnLife(fake, on_exhausted="stop", strategy=[])

    async def main() -> None:
        async with life.consumer:
            for attempt in life.consumer:
                with attempt:
                    raise OutageError
                raise LookupError

    with pytest.raises(LookupError) as raised:
        awaiting(main())
    assert ["and at close: "] == [note[:14] for note in raised.value.__notes__]


@types.coroutine
def _suspended() -> Generator[None, None, None]:
    yield


def test_a_coroutine_that_is_thrown_away(fake: FakeKafka) -> None:
    """Nothing can be awaited then: the consumer is closed, and no RuntimeError comes of it."""
    life = Life(fake)

    async def main() -> None:
        async with life.consumer:
            await _suspended()

    coroutine = main()
    coroutine.send(None)
    coroutine.close()
    with pytest.raises(UsageError, match="closed"):
        life.consumer.run(print)
