"""`run_async` whose task is cancelled, or thrown away."""

import asyncio
import gc
import threading
import warnings
from collections.abc import Callable
from typing import Any

import pytest

from linear_retry import UsageError, events
from linear_retry.kafka import Message
from tests.consumer.group import LETTERS, TOPIC, OutageError, PoisonError
from tests.consumer.runners.async_life import (
    Act,
    Life,
    awaiting,
    cancelling,
    forever,
    in_loop,
    succeed,
    threads,
)
from tests.fake.cluster import FakeKafka


def own_task() -> asyncio.Task[Any]:
    task = asyncio.current_task()
    assert task is not None
    return task


@pytest.fixture
def nothing_there() -> FakeKafka:
    """A topic without messages."""
    kafka = FakeKafka(balanced=True)
    kafka.create_topic(TOPIC, 1)
    kafka.create_topic(LETTERS, 1)
    return kafka


def test_in_the_handler(fake: FakeKafka) -> None:
    """The handler is cancelled; what was done is committed, the group left, and nothing decided
    about the message in hand."""
    life = Life(fake)

    async def handle(_: Message) -> None:
        if life.done == 2:
            own_task().cancel()
            await forever()

    with pytest.raises(asyncio.CancelledError):
        awaiting(life.run(handle))
    assert (3, 2, True) == (len(life.begun), life.committed, life.closed)
    assert [] == life.emitted(events.CircuitOpened)
    assert [] == life.violations()


def test_before_it_began(fake: FakeKafka) -> None:
    """A task that is cancelled before its first step starts no thread, and nothing is closed."""
    life = Life(fake)

    async def main() -> None:
        task = asyncio.create_task(life.run(succeed))
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        await life.run(life.stopping_after(1))

    awaiting(main())
    assert 1 == life.committed


def test_while_it_starts(fake: FakeKafka) -> None:
    """With the brokers down the wait for them ends at once."""
    life = Life(fake, start_timeout_s=3600)
    fake.faults.brokers_down = True

    async def main() -> None:
        fake.clock.at(5, cancelling())
        await life.run(succeed)

    begun_s = fake.clock.now_s()
    with pytest.raises(asyncio.CancelledError):
        awaiting(main())
    assert life.closed
    assert 60 > fake.clock.now_s() - begun_s


def test_before_the_first_message(nothing_there: FakeKafka) -> None:
    """Nothing has come yet: the group is left."""
    life = Life(nothing_there)

    async def main() -> None:
        nothing_there.clock.at(5, cancelling())
        await life.run(succeed)

    with pytest.raises(asyncio.CancelledError):
        awaiting(main())
    assert ([], True) == (life.begun, life.closed)


def test_while_paused(fake: FakeKafka) -> None:
    """A circuit is open: the held message is not done, and not attempted again."""
    life = Life(fake)

    async def handle(_: Message) -> None:
        if life.done == 2:
            fake.clock.at(0.5, cancelling())
            raise OutageError

    with pytest.raises(asyncio.CancelledError):
        awaiting(life.run(handle))
    assert (3, 2, True) == (len(life.begun), life.committed, life.closed)
    assert [] == life.violations()


def test_while_a_letter_is_sent(fake: FakeKafka) -> None:
    """Its acknowledgement is not waited for; the message is not done."""
    life = Life(fake)
    fake.faults.delivery_s = 60

    async def handle(_: Message) -> None:
        if life.done == 2:
            fake.clock.at(5, cancelling())
            raise PoisonError

    with pytest.raises(asyncio.CancelledError):
        awaiting(life.run(handle))
    assert (3, 2, []) == (len(life.begun), life.committed, life.emitted(events.DeadLettered))
    assert [] == life.violations()


@pytest.mark.parametrize("times", [1, 3])
def test_while_it_closes(fake: FakeKafka, times: int) -> None:
    """The closing is waited for, whoever cancels how often; then the cancellation goes on."""
    cancels: list[Callable[[], None]] = []

    def listen(event: events.Event) -> None:
        if isinstance(event, events.Stopped):
            for cancel in cancels * times:
                cancel()

    life = Life(fake, listeners=[listen])

    async def main() -> None:
        cancels.append(cancelling())
        await life.run(life.stopping_after(2))

    with pytest.raises(asyncio.CancelledError):
        awaiting(main())
    assert (2, True) == (life.committed, life.closed)


def test_between_two_messages(fake: FakeKafka) -> None:
    """Cancelled while the loop breathes: what is done is done, and no other is begun."""
    life = Life(fake)

    async def handle(_: Message) -> None:
        fake.clock.advance(0.02)
        if life.done == 2:
            asyncio.get_running_loop().call_soon(own_task().cancel)

    with pytest.raises(asyncio.CancelledError):
        awaiting(life.run(handle))
    assert (3, 3) == (len(life.begun), life.committed)
    assert [] == life.violations()


async def _an_hour_passes(_: Message) -> None:
    """On the loop's clock, before anything else is done: however slow the machine, it has begun."""
    loop, now_s = asyncio.get_running_loop(), asyncio.get_running_loop().time
    loop.time = lambda: now_s() + 3600  # type: ignore[method-assign]
    await forever()


async def _within_timeout(life: Life) -> None:
    async with asyncio.timeout(1800):
        await life.run(_an_hour_passes)


async def _within_wait_for(life: Life) -> None:
    await asyncio.wait_for(life.run(_an_hour_passes), 1800)


async def _within_group(life: Life) -> None:
    async def sibling() -> None:
        while not life.begun:
            await asyncio.sleep(0)
        raise LookupError

    async with asyncio.TaskGroup() as group:
        group.create_task(life.run(forever))
        group.create_task(sibling())


@pytest.mark.parametrize(
    ("within", "expected"),
    [
        (_within_timeout, TimeoutError),
        (_within_wait_for, TimeoutError),
        (_within_group, ExceptionGroup),
    ],
)
def test_by_what_is_around(fake: FakeKafka, within: Any, expected: type[Exception]) -> None:
    """A timeout, `wait_for` and a TaskGroup end it as they end anything else."""
    life = Life(fake)
    with pytest.raises(expected):
        awaiting(within(life))
    assert (1, 0, True) == (len(life.begun), life.committed, life.closed)
    assert [] == life.violations()


def test_together_with_a_second_stop(fake: FakeKafka) -> None:
    """Cancelled by both: the cancellation is not taken for the end that was asked for."""
    life = Life(fake)

    async def handle(_: Message) -> None:
        life.consumer.stop()
        life.consumer.stop()
        asyncio.get_running_loop().call_soon(own_task().cancel)
        await forever()

    with pytest.raises(asyncio.CancelledError):
        awaiting(life.run(handle))
    assert (0, True) == (life.committed, life.closed)


def test_a_handler_that_swallows_it(fake: FakeKafka) -> None:
    """Its message is done, and the cancellation goes on all the same: it was forgotten, and the
    task went on for ever."""
    life = Life(fake)

    async def handle(_: Message) -> None:
        if life.done == 2:
            own_task().cancel()
            try:
                await forever()
            except asyncio.CancelledError:
                return

    with pytest.raises(asyncio.CancelledError):
        awaiting(life.run(handle))
    assert (3, 3, True) == (len(life.begun), life.committed, life.closed)
    assert [] == life.violations()


@pytest.mark.parametrize("answer", [OutageError, PoisonError])
@pytest.mark.parametrize("by", ["cancel", "stop"])
def test_a_handler_that_answers_it_with_an_error(
    fake: FakeKafka, by: str, answer: type[Exception]
) -> None:
    """A connection that breaks because it was cancelled says nothing about the message: it was
    counted as failed, and got a dead letter."""
    life = Life(fake)

    async def handle(_: Message) -> None:
        if life.done < 2:
            return
        if by == "cancel":
            own_task().cancel()
        else:
            life.consumer.stop()
            life.consumer.stop()
        try:
            await forever()
        except asyncio.CancelledError:
            raise answer from None

    if by == "cancel":
        with pytest.raises(asyncio.CancelledError) as caught:
            awaiting(life.run(handle))
        assert isinstance(caught.value.__cause__, answer)
    else:
        awaiting(life.run(handle))
    assert (2, 0, []) == (life.committed, life.letters, life.emitted(events.CircuitOpened))


def test_a_timeout_in_the_handler(fake: FakeKafka) -> None:
    """The handler's own timeout cancels the task too, and is a failure like any other."""
    life = Life(fake, transient=TimeoutError)

    async def handle(_: Message) -> None:
        if len(life.begun) == 3:
            async with asyncio.timeout(0):
                await forever()

    awaiting(life.run(life.stopping_after(7, handle)))
    assert (1, 6) == (len(life.emitted(events.CircuitOpened)), life.committed)
    assert [] == life.violations(finished=True)


def test_a_cancellation_out_of_nowhere(fake: FakeKafka) -> None:
    """The handler awaited a task that somebody had cancelled: said loudly. As a cancellation it
    ended the consumer without a word, for a TaskGroup does not mind cancelled tasks."""
    life = Life(fake)

    async def handle(_: Message) -> None:
        if life.done == 2:
            other = asyncio.create_task(forever())
            other.cancel()
            await other

    with pytest.raises(UsageError, match="though its task was not cancelled") as caught:
        awaiting(life.run(handle))
    assert isinstance(caught.value.__cause__, asyncio.CancelledError)
    assert (3, 2, True) == (len(life.begun), life.committed, life.closed)
    assert [] == life.violations()


def test_cancelled_before_and_uncancelled(fake: FakeKafka) -> None:
    """Run in the clean-up of a task that was cancelled already, it works as ever."""
    life = Life(fake)

    async def main() -> None:
        own_task().cancel()
        try:
            await forever()
        except asyncio.CancelledError:
            await life.run(life.stopping_after(6, succeed))

    awaiting(main())
    assert 6 == life.committed


def _wait_for_the_thread() -> None:
    """Collecting until then: a thread in the midst of handing over has the task in its hand.

    And once more, for it may have had it there to the last, where it saw that its loop is closed.
    """
    for _ in range(100):
        there = threads()
        gc.collect()
        if not there:
            return
        for thread in there:
            thread.join(0.1)
    raise AssertionError("the thread lives")


async def _begun(life: Life, count: int) -> None:
    while len(life.begun) < count:
        await asyncio.sleep(0)


def _abandon(life: Life, act: Act, *, close: bool) -> None:
    """A loop is left, with its task, in the midst of the third attempt."""
    loop = asyncio.new_event_loop()
    loop.set_exception_handler(lambda *_: None)  # "Task was destroyed but it is pending"
    task = loop.create_task(life.run(act))
    loop.run_until_complete(_begun(life, 3))
    assert not task.done()
    if close:
        loop.close()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ResourceWarning)  # "unclosed event loop"
        del task, loop
        _wait_for_the_thread()


@pytest.mark.parametrize("close", [True, False])
def test_a_loop_that_is_thrown_away(fake: FakeKafka, close: bool) -> None:
    """A loop ends in the midst of a handler: once its task is collected the thread commits what
    is done and leaves. It held the task, and waited for ever."""
    life = Life(fake)

    async def handle(_: Message) -> None:
        if life.done == 2:
            await forever()

    _abandon(life, handle, close=close)
    assert (3, 2, True) == (len(life.begun), life.committed, life.closed)
    assert [] == life.violations()


def test_a_task_that_is_kept(fake: FakeKafka) -> None:
    """A loop is closed, and its task kept by somebody: the thread sees it within a second, and
    commits what is done. Of what it had handed over at last it knew nothing, and it all came again;
    so it did where the task was collected a second late."""
    life = Life(fake)

    async def handle(_: Message) -> None:
        if life.done == 2:
            await forever()

    loop = asyncio.new_event_loop()
    loop.set_exception_handler(lambda *_: None)
    task = loop.create_task(life.run(handle))
    loop.run_until_complete(_begun(life, 3))
    loop.close()
    _wait_for_the_thread()
    assert not task.done()
    assert (3, 2, True) == (len(life.begun), life.committed, life.closed)
    assert [] == life.violations()
    for _ in range(3):
        life.consumer.stop()  # for nobody: it raised "Event loop is closed"
    del task
    gc.collect()


def test_a_loop_that_is_closed_while_a_circuit_is_open(nothing_there: FakeKafka) -> None:
    """What the handler raised is kept, with the frames that it came through; by these the task
    was kept too, and so was the thread."""
    life = Life(nothing_there)
    nothing_there.append(TOPIC, 0)
    paused, gone = threading.Event(), threading.Event()

    def pause() -> None:
        paused.set()
        assert gone.wait(10)

    async def handle(_: Message) -> None:
        nothing_there.clock.at(0.5, pause)
        raise OutageError

    loop = asyncio.new_event_loop()
    loop.set_exception_handler(lambda *_: None)
    task = loop.create_task(life.run(handle))
    loop.run_until_complete(asyncio.to_thread(paused.wait, 10))
    loop.run_until_complete(loop.shutdown_default_executor())
    loop.close()
    del task, loop
    gc.collect()
    gone.set()
    _wait_for_the_thread()
    assert (1, 0, True) == (len(life.begun), life.committed, life.closed)


@pytest.mark.parametrize("answer", [OutageError, PoisonError])
def test_a_handler_that_fails_as_it_is_thrown_away(
    fake: FakeKafka, answer: type[Exception], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its clean-up finds no loop: that is no failure of the message."""
    emitted: list[Any] = []
    monkeypatch.setattr("sys.unraisablehook", emitted.append)
    life = Life(fake)

    async def handle(_: Message) -> None:
        if life.done == 2:
            try:
                await forever()
            finally:
                raise answer

    _abandon(life, handle, close=True)
    assert (2, 0, []) == (life.committed, life.letters, life.emitted(events.CircuitOpened))
    assert [answer] == [one.exc_type for one in emitted]


def test_a_coroutine_that_nobody_awaited(fake: FakeKafka) -> None:
    """Closed before it began: no thread, no client."""
    life = Life(fake)
    life.run(succeed).close()
    assert ([], []) == (threads(), fake.consumers)


def test_a_failing_thread_is_reported(fake: FakeKafka) -> None:
    """What is raised in the thread, by a listener say, is raised in the task."""

    def listen(event: events.Event) -> None:
        if isinstance(event, events.DeadLettered):
            raise SystemExit("told")

    life = Life(fake, listeners=[listen])

    async def handle(_: Message) -> None:
        raise PoisonError

    with pytest.raises(SystemExit, match="told"):
        awaiting(life.run(handle))
    assert life.closed


def test_two_ends(fake: FakeKafka) -> None:
    """What the thread raises while the task is cancelled is noted on the cancellation."""
    report: list[Callable[[], None]] = []

    def listen(event: events.Event) -> None:
        if isinstance(event, events.CircuitOpened):
            report[0]()
            raise SystemExit("told")

    life = Life(fake, listeners=[listen])

    async def handle(_: Message) -> None:
        report.append(in_loop(own_task().cancel))
        raise OutageError

    with pytest.raises(asyncio.CancelledError) as caught:
        awaiting(life.run(handle))
    assert ["and at the end: SystemExit('told')"] == caught.value.__notes__
