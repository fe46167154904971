"""`async with consumer.running(handler)`: the consumer and the block end together."""

import asyncio
from collections.abc import AsyncGenerator, Callable

import pytest

from linear_retry import ConfigurationError, PermanentError, UsageError, events
from linear_retry.consumer.runners.background import Background
from linear_retry.kafka import Message
from tests.consumer.group import LETTERS, TOPIC, PoisonError
from tests.consumer.runners.async_life import Act, Life, awaiting, forever, succeed, threads
from tests.fake.cluster import FakeKafka


async def _poison(_: Message) -> None:
    await asyncio.sleep(0)
    raise PoisonError


def _all_done(life: Life, done: asyncio.Event) -> Act:
    async def handle(_: Message) -> None:
        await asyncio.sleep(0)
        if len(life.begun) == 6:
            done.set()

    return life.watched(handle)


def test_it_consumes_beside_the_block(fake: FakeKafka) -> None:
    """Leaving the block commits what is done, and closes the consumer."""
    life = Life(fake)

    async def main() -> None:
        done = asyncio.Event()
        async with life.consumer.running(_all_done(life, done)) as entered:
            assert entered is life.consumer
            await done.wait()

    awaiting(main())
    assert (6, True) == (life.committed, life.closed)
    assert [True] == [event.left_group for event in life.emitted(events.Stopped)]
    assert [] == life.violations(finished=True)


def test_the_block_begins_once_it_has_started(fake: FakeKafka) -> None:
    """The client is there by then."""
    life = Life(fake)

    async def main() -> None:
        assert [] == fake.consumers
        async with life.consumer.running(succeed):
            assert 1 == len(fake.consumers)

    awaiting(main())
    assert life.closed


def test_leaving_waits_for_the_message_in_hand(fake: FakeKafka) -> None:
    """On the loop, which is not blocked meanwhile; nothing is begun after it."""
    life = Life(fake)

    async def main() -> None:
        begun, may_end = asyncio.Event(), asyncio.Event()

        async def handle(_: Message) -> None:
            begun.set()
            await may_end.wait()

        async with life.consumer.running(life.watched(handle)):
            await begun.wait()
            asyncio.get_running_loop().call_soon(may_end.set)

    awaiting(main())
    assert (1, 1, True) == (life.done, life.committed, life.closed)


def test_what_fails_at_the_start_is_raised_at_once(fake: FakeKafka) -> None:
    """The block is not begun, and the consumer is closed."""
    life = Life(fake)
    fake.delete_topic(TOPIC)
    entered = False

    async def main() -> None:
        nonlocal entered
        async with life.consumer.running(succeed):
            entered = True

    with pytest.raises(ConfigurationError, match=TOPIC):
        awaiting(main())
    assert (False, True) == (entered, life.closed)


def test_a_handler_that_cannot_work(fake: FakeKafka) -> None:
    """It is refused as `run_async` refuses it, before there is anything to enter."""
    consumer = Life(fake).consumer
    with pytest.raises(UsageError):
        consumer.running(lambda: None)  # type: ignore[arg-type]


def test_a_handler_with_nothing_to_await(fake: FakeKafka) -> None:
    """It is refused at the first message, which ends the block."""
    life = Life(fake)

    async def main() -> None:
        async with life.consumer.running(print):  # type: ignore[arg-type]
            await forever()

    with pytest.raises(UsageError, match="nothing to await"):
        awaiting(main())
    assert (0, True) == (life.committed, life.closed)


def test_an_error_of_the_consumer_ends_the_block(fake: FakeKafka) -> None:
    """It is raised with its own cause, the block was cancelled, the task around it was not."""
    life = Life(fake, on_permanent="stop")
    ended: list[str] = []

    async def block() -> None:
        async with life.consumer.running(life.watched(_poison)):
            try:
                async with asyncio.timeout(30):
                    await forever()
            finally:
                ended.append("block")

    async def main() -> None:
        with pytest.raises(PermanentError) as caught:
            await block()
        assert isinstance(caught.value.__cause__, PoisonError)
        assert caught.value.__context__ is None
        await asyncio.sleep(0)
        ended.append("program")

    awaiting(main())
    assert ["block", "program"] == ended
    assert life.closed


@pytest.mark.parametrize("swallows", [True, False])
def test_a_block_that_raises_at_its_cancellation(fake: FakeKafka, swallows: bool) -> None:
    """Its own error goes on, with a note of the consumer's; if it raises none, the consumer's."""
    life = Life(fake, on_permanent="stop")

    async def main() -> None:
        async with life.consumer.running(life.watched(_poison)):
            try:
                await forever()
            except asyncio.CancelledError:
                if not swallows:
                    raise LookupError from None

    with pytest.raises(PermanentError if swallows else LookupError) as caught:
        awaiting(main())
    notes = getattr(caught.value, "__notes__", [])
    assert swallows or ["and the consumer: Permanent"] == [note[:27] for note in notes]


def test_an_error_of_the_block(fake: FakeKafka) -> None:
    """It ends the consumer, which commits what is done."""
    life = Life(fake)

    async def main() -> None:
        done = asyncio.Event()
        async with life.consumer.running(_all_done(life, done)):
            await done.wait()
            raise LookupError

    with pytest.raises(LookupError):
        awaiting(main())
    assert (6, True) == (life.committed, life.closed)


@pytest.mark.parametrize("caller", ["handler", "block"])
def test_a_stop_ends_the_block(fake: FakeKafka, caller: str) -> None:
    """Quietly: the program goes on behind it."""
    life = Life(fake)
    went_on = False

    async def main() -> None:
        nonlocal went_on
        async with life.consumer.running(life.watched(life.stopping_after(3, succeed))):
            if caller == "block":
                life.consumer.stop()
            await forever()
        await asyncio.sleep(0)
        went_on = True

    awaiting(main())
    assert (True, True) == (went_on, life.closed)
    assert len(life.begun) == life.committed <= 3


def test_nothing_is_left_of_the_cancellation(fake: FakeKafka) -> None:
    """A timeout around it, which has not passed, is none."""
    life = Life(fake)

    async def main() -> int:
        async with life.consumer.running(life.watched(life.stopping_after(3, succeed))):
            await forever()
        task = asyncio.current_task()
        assert task is not None
        return task.cancelling()

    assert 0 == awaiting(main())


def test_stopped_before_it_began(fake: FakeKafka) -> None:
    """The block ends at its first await."""
    life = Life(fake)
    life.consumer.stop()

    async def main() -> None:
        async with life.consumer.running(succeed):
            await forever()

    awaiting(main())
    assert life.closed


def test_a_timeout_around_the_block(fake: FakeKafka) -> None:
    """A cancellation from outside cancels the handler too, and goes on; its message comes again."""
    life = Life(fake)

    async def main() -> None:
        begun = asyncio.Event()

        async def handle(_: Message) -> None:
            begun.set()
            await forever()

        async with asyncio.timeout(None) as timeout:
            async with life.consumer.running(life.watched(handle)):
                await begun.wait()
                timeout.reschedule(0)
                await forever()

    with pytest.raises(TimeoutError):
        awaiting(main())
    assert (1, 0, 0, True) == (len(life.begun), life.done, life.committed, life.closed)


def test_cancelled_while_it_waits_for_the_message_in_hand(fake: FakeKafka) -> None:
    """Whoever does not want to wait for the end cancels once more: so the handler is cancelled."""
    life = Life(fake)

    async def main() -> None:
        begun = asyncio.Event()

        async def handle(_: Message) -> None:
            begun.set()
            await forever()

        async with asyncio.timeout(None) as timeout:
            async with life.consumer.running(life.watched(handle)):
                await begun.wait()
                timeout.reschedule(0)

    with pytest.raises(TimeoutError):
        awaiting(main())
    assert (0, 0, True) == (life.done, life.committed, life.closed)


def test_cancelled_at_the_start(fake: FakeKafka) -> None:
    """The consumer is closed before the cancellation goes on."""
    life = Life(fake)

    async def main() -> None:
        task = asyncio.create_task(block())
        await asyncio.sleep(0)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        assert life.closed

    async def block() -> None:
        async with life.consumer.running(succeed):
            await forever()

    awaiting(main())


def test_both_end_in_one_round_of_the_loop() -> None:
    """The block was left before it was told: no cancellation comes after that."""
    ended = []

    async def main() -> None:
        end = asyncio.Event()

        async def consume(note_started: Callable[[], None]) -> None:
            note_started()
            await end.wait()

        async with Background(consume, lambda: ended.append("stop")):
            asyncio.get_running_loop().call_later(0.01, end.set)
            await end.wait()
        await asyncio.sleep(0)
        ended.append("program")

    asyncio.run(main())
    assert ["stop", "program"] == ended


def test_a_handler_that_ends_the_program(fake: FakeKafka) -> None:
    """SystemExit goes through the loop, as from any task, once the consumer is closed."""
    life = Life(fake)

    async def handle(_: Message) -> None:
        await asyncio.sleep(0)
        raise SystemExit(3)

    async def main() -> None:
        async with life.consumer.running(life.watched(handle)):
            await forever()

    with pytest.raises(SystemExit, match="3"):
        awaiting(main())
    assert (0, True) == (life.committed, life.closed)


def test_two_in_one_block(fake: FakeKafka) -> None:
    """The error of one ends both."""
    other = FakeKafka(balanced=True)  # with a clock of its own
    other.create_topic(TOPIC, 1)
    other.create_topic(LETTERS, 1)
    first, second = Life(fake, on_permanent="stop"), Life(other)

    async def main() -> None:
        async with second.consumer.running(succeed), first.consumer.running(_poison):
            await forever()

    with pytest.raises(PermanentError):
        awaiting(main())
    assert (True, True) == (first.closed, second.closed)


def test_a_block_that_is_thrown_away(fake: FakeKafka) -> None:
    """Nothing can be awaited then: the consumer is asked to stop, and ends beside the program."""
    life = Life(fake)

    async def main() -> None:
        lifetime = block()
        await anext(lifetime)
        await lifetime.aclose()
        while not life.closed or threads():  # nobody awaits the last moments of its thread
            await asyncio.sleep(0)

    async def block() -> AsyncGenerator[None]:
        async with life.consumer.running(succeed):
            yield

    awaiting(main())
    assert [] == life.violations()
