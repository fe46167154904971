"""What does `run_async` promise to the program that awaits it?"""

from __future__ import annotations

import asyncio
import contextlib
import functools
import itertools
import threading
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextvars import ContextVar
from typing import Any

import pytest

from linear_retry import (
    BrokerError,
    ExhaustedError,
    HandlerTooSlowError,
    PermanentError,
    RetryAfter,
    Scope,
    UsageError,
    events,
)
from linear_retry.kafka import Message
from tests.consumer.async_life import Act, Life, awaiting, forever, in_loop
from tests.consumer.group import TOPIC, OutageError, PoisonError
from tests.fake.cluster import FakeKafka


async def succeed(_: Message) -> None:
    await asyncio.sleep(0)


# -- what comes of a message -------------------------------------------------------------------


def test_all_that_succeeds_is_done_and_committed(fake: FakeKafka) -> None:
    """Each message is awaited once, in order; at the end it is committed, and the group left."""
    life = Life(fake)
    awaiting(life.run(life.stopping_after(6, succeed)))
    assert (6, 6, True) == (len(life.begun), life.committed, life.closed)
    assert [True] == [event.left_group for event in life.said(events.Stopped)]
    assert [] == life.violations(finished=True)


def test_outcomes(fake: FakeKafka) -> None:
    """Transient: attempted again at `retry_at`; permanent: a letter; both in their order."""
    life = Life(fake)
    errors: dict[int, Exception] = {2: OutageError(), 3: OutageError(), 5: PoisonError()}

    async def handle(_: Message) -> None:
        await asyncio.sleep(0)
        error = errors.get(len(life.begun))
        if error is not None:
            raise error

    awaiting(life.run(life.stopping_after(8, handle)))
    assert [1.0] == [event.delay_s for event in life.said(events.CircuitOpened)]
    assert [5.0] == [event.delay_s for event in life.said(events.ProbeFailed)]
    assert (5, 1, 6) == (life.done, life.letters, life.committed)
    assert [] == life.violations(finished=True)


def test_retry_after(fake: FakeKafka) -> None:
    """`RetryAfter` lengthens this wait."""
    life = Life(fake)

    async def handle(_: Message) -> None:
        if len(life.begun) == 1:
            raise RetryAfter(30)

    awaiting(life.run(life.stopping_after(7, handle)))
    assert [30.0] == [event.delay_s for event in life.said(events.CircuitOpened)]
    assert [] == life.violations(finished=True)


@pytest.mark.parametrize(
    ("choice", "raised", "expected"),
    [
        ("on_exhausted", OutageError, ExhaustedError),
        ("on_permanent", PoisonError, PermanentError),
    ],
)
def test_stop_errors(
    fake: FakeKafka, choice: str, raised: type[Exception], expected: type[Exception]
) -> None:
    """Where "stop" was chosen, the task raises it with the handler's error as its cause."""
    life = Life(fake, **{choice: "stop"})

    async def handle(_: Message) -> None:
        await asyncio.sleep(0)
        if life.done == 2:
            raise raised

    with pytest.raises(expected) as caught:
        awaiting(life.run(handle))
    assert isinstance(caught.value.__cause__, raised)
    assert (2, 0, True) == (life.committed, life.letters, life.closed)
    assert [] == life.violations()


@pytest.mark.parametrize("raised", [KeyboardInterrupt, SystemExit])
def test_what_is_no_error(fake: FakeKafka, raised: type[BaseException]) -> None:
    """It goes on through the task once the consumer is closed; its message is neither done nor
    failed."""
    life = Life(fake)

    async def handle(_: Message) -> None:
        await asyncio.sleep(0)
        if life.done == 2:
            raise raised

    with pytest.raises(raised):
        awaiting(life.run(handle))
    assert (2, True, []) == (life.committed, life.closed, life.said(events.CircuitOpened))
    assert [] == life.violations()


# -- what may be a handler ---------------------------------------------------------------------

_SEEN: ContextVar[list[Message]] = ContextVar("seen")


async def _note(message: Message, *, times: int = 1) -> None:
    await asyncio.sleep(0)
    _SEEN.get().extend([message] * times)


class _Noting:
    async def __call__(self, message: Message) -> None:
        await _note(message)

    async def method(self, message: Message) -> None:
        await _note(message)

    @staticmethod
    async def static(message: Message) -> None:
        await _note(message)


def _future(message: Message) -> Awaitable[None]:
    return asyncio.ensure_future(_note(message))


class _Awaitable:
    def __init__(self, message: Message) -> None:
        self._message = message

    def __await__(self) -> Iterator[Any]:
        return _note(self._message).__await__()


@pytest.mark.parametrize(
    "handler",
    [
        _note,
        lambda message: _note(message),
        functools.partial(_note, times=1),
        _Noting(),
        _Noting().method,
        _Noting.static,
        functools.partial(_Noting()),
        _future,
        _Awaitable,
    ],
    ids=str,
)
def test_whatever_gives_an_awaitable_is_a_handler(
    fake: FakeKafka, handler: Callable[[Message], Awaitable[object]]
) -> None:
    """Coroutine functions in every disguise, and plain ones that give something to await."""
    life, seen = Life(fake), list[Message]()
    _SEEN.set(seen)
    awaiting(life.run(life.stopping_after(6, handler)))
    assert (6, 6) == (len(seen), life.committed)


def _nothing(message: Message) -> None:
    """Returns None."""


async def _async_generator(message: Message) -> AsyncIterator[int]:
    yield 1


def _generator(message: Message) -> Iterator[int]:
    yield 1


@pytest.mark.parametrize(
    "handler",
    [
        _nothing,
        print,
        lambda message: 1,
        _async_generator,
        _generator,
        lambda message: _async_generator(message),
        functools.partial(_nothing),
        "no function",
    ],
    ids=str,
)
def test_nothing_to_await(fake: FakeKafka, handler: Any) -> None:
    """Refused; nothing is decided about the message, which is neither done nor failed."""
    life = Life(fake)
    with pytest.raises(UsageError, match="handler="):
        awaiting(life.consumer.run_async(handler))
    life.consumer.close()
    assert (0, 0, []) == (life.committed, life.letters, life.said(events.CircuitOpened))


# -- where handlers run ------------------------------------------------------------------------


def test_handlers_run_in_the_task_that_awaits(fake: FakeKafka) -> None:
    """Task, thread and context variables are the caller's; listeners are on the owner thread."""
    told: set[str] = set()
    seen: set[object] = set()
    who: ContextVar[str] = ContextVar("who", default="nobody")
    life = Life(fake, listeners=[lambda _: told.add(threading.current_thread().name)])

    async def handle(_: Message) -> None:
        seen.add((asyncio.current_task(), threading.current_thread(), who.get()))

    async def main() -> object:
        who.set("me")
        await life.run(life.stopping_after(6, handle))
        return asyncio.current_task(), threading.current_thread(), who.get()

    assert {awaiting(main())} == seen
    assert {"linear_retry run_async"} == told


def test_the_loop_lives_on_through_a_pause(fake: FakeKafka) -> None:
    """Other tasks run while a circuit is open: nothing of the consumer's work blocks their loop."""
    ticks: list[str] = []
    life = Life(fake)

    async def handle(_: Message) -> None:
        if len(life.begun) == 1:
            # Called by the owner thread, in the midst of the pause of a second.
            fake.clock.at(0.5, in_loop(lambda: ticks.append(life.consumer.circuits[Scope()].state)))
            raise OutageError

    awaiting(life.run(life.stopping_after(7, handle)))
    assert ["open"] == ticks
    assert [] == life.violations(finished=True)


def test_an_operator_on_the_loop(fake: FakeKafka) -> None:
    """Another task asks for an attempt now, and awaits the answer of the owner thread."""
    life, answers = Life(fake), list[bool]()
    asked_s: list[float] = []

    async def ask() -> None:
        asked_s.append(fake.clock.now_s())
        place = (TOPIC, *life.begun[-1])
        answers.append(await asyncio.wrap_future(life.consumer.retry_now(*place)))

    async def handle(_: Message) -> None:
        if len(life.begun) == 1:
            begin = asyncio.get_running_loop().create_task
            fake.clock.at(5, in_loop(lambda: tasks.append(begin(ask()))))
            raise RetryAfter(3600)

    tasks: list[asyncio.Task[None]] = []

    async def main() -> None:
        await life.run(life.stopping_after(7, handle))
        await tasks[0]

    awaiting(main())
    assert [True] == answers
    assert 60 > fake.clock.now_s() - asked_s[0]
    assert 6 == life.committed


def test_the_loop_breathes(fake: FakeKafka) -> None:
    """Handlers that never wait let other tasks run all the same, in the midst of a batch."""
    for _ in range(400):
        fake.append(TOPIC, 0)
    life, ticks = Life(fake), list[int]()

    async def handle(_: Message) -> None:
        fake.clock.advance(0.001)

    async def tick() -> None:
        while True:
            ticks.append(len(life.begun))
            await asyncio.sleep(0)

    async def main() -> None:
        other = asyncio.create_task(tick())
        await life.run(life.stopping_after(406, handle))
        other.cancel()

    awaiting(main())
    seen = sorted({*ticks})
    assert 12 >= max(later - sooner for sooner, later in itertools.pairwise(seen))
    assert [] == life.violations(finished=True)


def test_closing_does_not_block_the_loop(fake: FakeKafka) -> None:
    """Commit and goodbye are the thread's: the loop goes round meanwhile."""
    rounds: list[str] = []

    def listen(event: events.Event) -> None:
        if isinstance(event, events.Stopped):
            go_round[0]()

    go_round: list[Callable[[], None]] = []
    life = Life(fake, listeners=[listen])

    async def main() -> None:
        go_round.append(in_loop(lambda: rounds.append("closing")))
        await life.run(life.stopping_after(1))

    awaiting(main())
    assert ["closing"] == rounds


# -- the loop is busy elsewhere ----------------------------------------------------------------


def test_a_loop_that_was_blocked_for_too_long(fake: FakeKafka) -> None:
    """Someone else on the loop blocked it for longer than max.poll.interval.ms, between two
    messages: the second was attempted though it was another member's by then."""
    life, seen_late = Life(fake), list[tuple[int, int]]()

    async def block() -> None:
        """Each time that it is its turn, until the consumer has had to give up once."""
        while not life.said(events.HandlerTooSlow):
            if life.done == 1:
                fake.clock.advance(301)
            await asyncio.sleep(0)

    async def handle(message: Message) -> None:
        if life.done == 1 and not life.said(events.Lost):
            seen_late.append((message.partition() or 0, message.offset() or 0))

    async def main() -> None:
        other = asyncio.create_task(block())
        await life.run(life.stopping_after(7, handle))
        await other

    awaiting(main())
    assert ([], 1) == (seen_late, len(life.said(events.HandlerTooSlow)))
    assert [] == life.violations()


def test_a_handler_that_is_too_slow(fake: FakeKafka) -> None:
    """Nothing is stored, the message is attempted anew; at the third time it is raised."""
    life = Life(fake)

    async def handle(_: Message) -> None:
        await asyncio.sleep(0)
        fake.clock.advance(301)

    with pytest.raises(HandlerTooSlowError):
        awaiting(life.run(handle))
    last = life.said(events.HandlerTooSlow)[-1]
    assert (3, 0, True) == (last.overruns, life.committed, life.closed)


# -- stop and close ----------------------------------------------------------------------------


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
    assert 1 == len(life.said(events.Stopped))


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
    """Stops that come when its loop is closed already are for nobody: they raised RuntimeError."""
    life = Life(fake)
    awaiting(life.run(life.stopping_after(1)))
    for _ in range(3):
        life.consumer.stop()


# -- in company --------------------------------------------------------------------------------


def test_two_at_once(fake: FakeKafka) -> None:
    """One consumer, one `run_async` at a time: the second is refused, the first goes on."""
    life, refused = Life(fake), list[str]()

    async def handle(_: Message) -> None:
        for way in (life.consumer.run_async(succeed), asyncio.create_task(life.run(succeed))):
            try:
                await way
            except UsageError as error:
                refused.append(str(error))

    awaiting(life.run(life.stopping_after(2, handle)))
    assert [True] * 4 == ["runs already" in text for text in refused]
    assert (2, 2) == (len(life.begun), life.committed)
    assert [] == life.violations()


def test_run_within_it(fake: FakeKafka) -> None:
    """`run`, and a loop of one's own, are refused from within its handler."""
    life, refused = Life(fake), list[UsageError]()

    async def handle(_: Message) -> None:
        for use in (lambda: life.consumer.run(print), lambda: next(life.consumer)):
            try:
                use()
            except UsageError as error:
                refused.append(error)

    awaiting(life.run(life.stopping_after(1, handle)))
    assert (2, 1) == (len(refused), life.committed)


def test_it_within_run(fake: FakeKafka) -> None:
    """It is refused from within the handler of `run`, which goes on."""
    life, refused = Life(fake), list[UsageError]()

    def handle(_: Message) -> None:
        with pytest.raises(UsageError) as caught:
            asyncio.run(life.consumer.run_async(succeed))
        refused.append(caught.value)
        if len(refused) == 6:
            life.consumer.stop()

    with life.consumer as consumer:
        consumer.run(handle)
    assert (6, 6) == (len(refused), life.committed)


def test_it_while_another_thread_owns(fake: FakeKafka) -> None:
    """Refused, and the owner, between two attempts of a loop of its own, did not notice: it was
    stopped, and the refusal took ten seconds."""
    life, seen = Life(fake), list[bytes | None]()
    offered, refused = threading.Event(), threading.Event()

    def own() -> None:
        for attempt in life.consumer:
            with attempt as message:
                offered.set()
                assert refused.wait(10)
                seen.append(message.value())
                if len(seen) == 6:
                    break
        life.consumer.close()

    async def intrude() -> None:
        with pytest.raises(UsageError, match="belongs to the thread"):
            await life.consumer.run_async(succeed)

    thread = threading.Thread(target=own)
    thread.start()
    assert offered.wait(10)
    awaiting(intrude())
    refused.set()
    thread.join(10)
    assert (6, 6) == (len(seen), life.committed)


def test_after_a_loop_of_ones_own(fake: FakeKafka) -> None:
    """A loop that was left with a break, in the same thread, is gone on with: it was refused."""
    life, seen = Life(fake), list[bytes | None]()
    for attempt in life.consumer:
        with attempt as message:
            seen.append(message.value())
            if len(seen) == 2:
                break
    awaiting(life.consumer.run_async(life.watched(life.stopping_after(4))))
    assert (2, 4, 6) == (len(seen), len(life.begun), life.committed)


def test_a_loop_of_ones_own_within_it_that_was_begun_before(fake: FakeKafka) -> None:
    """What the loop had read ahead is not handed out behind the back of the thread."""
    life = Life(fake)
    for attempt in life.consumer:
        with attempt:
            break
    refused: list[UsageError] = []

    async def handle(_: Message) -> None:
        with pytest.raises(UsageError) as caught:
            next(life.consumer)
        refused.append(caught.value)

    awaiting(life.run(life.stopping_after(5, handle)))
    assert (5, 6) == (len(refused), life.committed)


def test_after_a_failure_in_a_loop_of_ones_own(fake: FakeKafka) -> None:
    """What the last attempt came to is applied first: its message is the first to come again."""
    life, places = Life(fake), list[tuple[int, int]]()
    for attempt in life.consumer:
        with attempt as message:
            places.append((message.partition() or 0, message.offset() or 0))
            raise OutageError
        break
    awaiting(life.run(life.stopping_after(6)))
    assert places == life.begun[:1]
    assert (1, 6) == (len(life.said(events.CircuitOpened)), life.committed)


def test_within_an_attempt(fake: FakeKafka) -> None:
    """Refused while an attempt is out; the loop goes on, nothing is closed."""
    life = Life(fake)
    for number, attempt in enumerate(life.consumer, 1):
        with attempt, pytest.raises(UsageError, match="was not left"):
            awaiting(life.consumer.run_async(succeed))
        if number == 6:
            break
    life.consumer.close()
    assert 6 == life.committed


def _interrupt(_: Message) -> None:
    raise KeyboardInterrupt


def test_after_run(fake: FakeKafka) -> None:
    """A `run` that raised can be gone on with: it was refused, the main thread owned it."""
    life = Life(fake)

    with pytest.raises(KeyboardInterrupt):
        life.consumer.run(_interrupt)
    awaiting(life.run(life.stopping_after(6)))
    assert (6, 6) == (len(life.begun), life.committed)
    assert [] == life.violations(finished=True)


def test_after_it(fake: FakeKafka) -> None:
    """It closes the consumer: nothing can follow."""
    life = Life(fake)
    awaiting(life.run(life.stopping_after(1)))
    with pytest.raises(UsageError, match="closed"):
        awaiting(life.run(succeed))
    with pytest.raises(UsageError, match="closed"):
        life.consumer.run(print)


@pytest.mark.parametrize("follower", ["run", "run_async"])
def test_after_a_start_that_failed(fake: FakeKafka, follower: str) -> None:
    """Not closed then: another use, at once, makes it good. The thread must have ended before."""
    for _ in range(20):
        life = Life(fake, start_timeout_s=1)
        fake.faults.brokers_down = True
        with pytest.raises(BrokerError):
            awaiting(life.run(succeed))
        fake.faults.brokers_down = False
        if follower == "run":
            with pytest.raises(KeyboardInterrupt):
                life.consumer.run(_interrupt)
        else:
            awaiting(life.run(life.stopping_after(1)))
        life.consumer.close()
        fake.append(TOPIC, 0)


def test_closed_while_it_starts(fake: FakeKafka) -> None:
    """`close` from another task, and then the start fails: it is closed nevertheless."""
    life = Life(fake, start_timeout_s=3)
    fake.faults.brokers_down = True

    async def main() -> None:
        fake.clock.at(2, in_loop(life.consumer.close))
        await life.run(succeed)

    awaiting(main())
    assert life.closed


def test_two_consumers_on_one_loop() -> None:
    """Each has its own thread and its own topic; neither waits for the other's handler."""
    lives = []
    for _ in range(2):
        kafka = FakeKafka(balanced=True)
        kafka.create_topic(TOPIC, 1)
        kafka.create_topic("orders.dlq", 1)
        kafka.append(TOPIC, 0)
        lives.append(Life(kafka))
    met = asyncio.Barrier(2)

    def meeting(life: Life) -> Act:
        async def handle(_: Message) -> None:
            await met.wait()
            life.consumer.stop()

        return handle

    async def main() -> None:
        async with asyncio.TaskGroup() as group:
            for life in lives:
                group.create_task(life.run(meeting(life)))

    awaiting(main())
    assert [1, 1] == [life.committed for life in lives]
