"""What `run_async` promises to the program that awaits it."""

import asyncio
import functools
import itertools
import math
import threading
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextvars import ContextVar
from typing import Any

import pytest

from linear_retry import (
    ExhaustedError,
    HandlerTooSlowError,
    PermanentError,
    RetryAfter,
    Scope,
    UsageError,
    events,
)
from linear_retry.consumer.ownership.stop import StopFlag
from linear_retry.consumer.runners.async_hand_over import AsyncAttempting
from linear_retry.consumer.runners.run_handler import Batch, Results
from linear_retry.kafka import Message
from tests.consumer.group import TOPIC, OutageError, PoisonError
from tests.consumer.runners.async_life import Life, awaiting, in_loop, succeed
from tests.fake.cluster import FakeKafka


def test_all_that_succeeds_is_done_and_committed(fake: FakeKafka) -> None:
    """Each message is awaited once, in order; at the end it is committed, and the group left."""
    life = Life(fake)
    awaiting(life.run(life.stopping_after(6, succeed)))
    assert (6, 6, True) == (len(life.begun), life.committed, life.closed)
    assert [True] == [event.left_group for event in life.emitted(events.Stopped)]
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
    assert [1.0] == [event.delay_s for event in life.emitted(events.CircuitOpened)]
    assert [5.0] == [event.delay_s for event in life.emitted(events.ProbeFailed)]
    assert (5, 1, 6) == (life.done, life.letters, life.committed)
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
    assert (2, True, []) == (life.committed, life.closed, life.emitted(events.CircuitOpened))
    assert [] == life.violations()


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
    fake.clock.at(60, life.consumer.stop)
    with pytest.raises(UsageError, match="handler="):
        awaiting(life.consumer.run_async(handler))
    life.consumer.close()
    assert (0, 0, []) == (life.committed, life.letters, life.emitted(events.CircuitOpened))


def test_handlers_run_in_the_task_that_awaits(fake: FakeKafka) -> None:
    """Task, thread and context variables are the caller's; listeners are on the owner thread."""
    reported: set[str] = set()
    seen: set[object] = set()
    who: ContextVar[str] = ContextVar("who", default="nobody")
    life = Life(fake, listeners=[lambda _: reported.add(threading.current_thread().name)])

    async def handle(_: Message) -> None:
        seen.add((asyncio.current_task(), threading.current_thread(), who.get()))

    async def main() -> object:
        who.set("me")
        await life.run(life.stopping_after(6, handle))
        return asyncio.current_task(), threading.current_thread(), who.get()

    assert {awaiting(main())} == seen
    assert {"linear_retry run_async"} == reported


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


def test_a_loop_that_was_blocked_for_too_long(fake: FakeKafka) -> None:
    """Someone else on the loop blocks it for longer than max.poll.interval.ms, between two
    messages: nothing is attempted before the consumer has said that it lost them."""
    life, seen_late = Life(fake), list[tuple[int, int]]()

    async def block() -> None:
        """Each time that it is its turn, until the consumer has had to give up once."""
        while not life.emitted(events.HandlerTooSlow):
            if life.done == 1:
                fake.clock.advance(301)
            await asyncio.sleep(0)

    async def handle(message: Message) -> None:
        if life.done == 1 and not life.emitted(events.Lost):
            seen_late.append((message.partition() or 0, message.offset() or 0))

    async def main() -> None:
        other = asyncio.create_task(block())
        await life.run(life.stopping_after(7, handle))
        await other

    awaiting(main())
    assert [] == seen_late
    assert [] == life.violations()


def test_work_that_comes_too_late(fake: FakeKafka) -> None:
    """What had waited for a blocked loop for longer than max.poll.interval.ms was attempted,
    though it was another member's by then."""
    seen: list[Message] = []

    async def handle(message: Message) -> None:
        seen.append(message)

    async def main() -> Batch:
        batch = Batch([Message(topic=TOPIC, partition=0, offset=0)], begin_by_s=fake.clock.now_s())
        fake.clock.advance(0.001)
        stop = StopFlag()
        stop.allow_until(math.inf)
        await AsyncAttempting(handle, stop, fake.clock.now_s, Results()).attempt_all(batch)
        return batch

    batch = awaiting(main())
    assert ([], 0, None) == (seen, batch.handled, batch.error)


def test_a_handler_that_is_too_slow(fake: FakeKafka) -> None:
    """Nothing is stored, the message is attempted again; at the third time it is raised."""
    life = Life(fake)

    async def handle(_: Message) -> None:
        await asyncio.sleep(0)
        fake.clock.advance(301)

    with pytest.raises(HandlerTooSlowError):
        awaiting(life.run(handle))
    last = life.emitted(events.HandlerTooSlow)[-1]
    assert (3, 0, True) == (last.attempts, life.committed, life.closed)
