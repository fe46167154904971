"""A failed attempt leaves nothing of itself behind: neither its frames nor its exception."""

import asyncio
import gc
import traceback
import weakref
from collections.abc import Callable, Generator, Iterator
from typing import Any

import pytest

from linear_retry import BatchError, ExhaustedError, PermanentError, Recovery
from linear_retry.kafka import Message
from tests.consumer.group import LETTERS, TOPIC, OutageError, PoisonError, consumer_on
from tests.consumer.runners.async_life import awaiting
from tests.fake.cluster import FakeKafka
from tests.spark.streaming.virtual import World, row


class _Connection:
    """What a handler opens, and is closed once nothing refers to it."""


class _Attempts:
    """Attempts of one message that fail with a connection open, and what is left of them."""

    def __init__(self, errors: list[Exception]) -> None:
        self._errors = errors[::-1]
        self._opened: list[weakref.ref[Any]] = []
        self.left: list[int] = []

    def attempt(self, _: object = None) -> None:
        """Notes how much is left of the earlier ones; fails with the next error, if any."""
        self.left.append(sum(found() is not None for found in self._opened))
        if self._errors:
            self._fail(_Connection())

    def _fail(self, connection: _Connection) -> None:
        with _transaction() as inner:
            error = self._errors.pop()  # this frame refers to the error, and that to this frame
            self._opened += [weakref.ref(one) for one in (connection, inner, error)]
            try:
                raise KeyError("first")
            except KeyError:
                raise error  # noqa: B904  (what is behind it is kept as well)


@pytest.fixture(autouse=True)
def no_collector() -> Iterator[None]:
    """Connections are closed when they are let go of, and not when the collector comes by."""
    gc.collect()
    gc.disable()
    try:
        yield
    finally:
        gc.enable()


class _transaction:  # noqa: N801  (used like a function)
    def __enter__(self) -> _Connection:
        return _Connection()

    def __exit__(self, *_: object) -> None:
        """Closes nothing: a transaction without an owner is rolled back."""


def _run(fake: FakeKafka, attempts: _Attempts, **options: Any) -> None:
    with consumer_on(fake, **options) as consumer:

        def handler(message: Message) -> None:
            attempts.attempt(message)
            consumer.stop()

        consumer.run(handler)


def _run_async(fake: FakeKafka, attempts: _Attempts, **options: Any) -> None:
    async def main() -> None:
        async with consumer_on(fake, **options) as consumer:

            async def handler(message: Message) -> None:
                await asyncio.sleep(0)
                attempts.attempt(message)
                consumer.stop()

            await consumer.run_async(handler)

    awaiting(main())


def _own_loop(fake: FakeKafka, attempts: _Attempts, **options: Any) -> None:
    with consumer_on(fake, **options) as consumer:
        for attempt in consumer:
            with attempt as message:
                attempts.attempt(message)
                consumer.stop()


def _run_batches(fake: FakeKafka, attempts: _Attempts, **options: Any) -> None:
    with consumer_on(fake, **options) as consumer:

        def handler(messages: list[Message]) -> None:
            attempts.attempt(messages)
            consumer.stop()

        consumer.run_batches(handler)


def _run_batches_with_index(fake: FakeKafka, attempts: _Attempts, **options: Any) -> None:
    with consumer_on(fake, **options) as consumer:

        def handler(messages: list[Message]) -> None:
            try:
                attempts.attempt(messages)
            except Exception as error:
                failed = BatchError(0, error)
                raise failed from error
            consumer.stop()

        consumer.run_batches(handler)


def _foreach_batch(_: FakeKafka, attempts: _Attempts, **options: Any) -> None:
    world = World([1, 5], **options)
    world.runner.handle(world.stream(attempts.attempt, [row(0)]))


_RUNNERS = pytest.mark.parametrize(
    "runner",
    [_run, _run_async, _own_loop, _run_batches, _run_batches_with_index, _foreach_batch],
)
_Runner = Callable[..., None]


@pytest.fixture
def one_message() -> FakeKafka:
    fake = FakeKafka(balanced=True)
    for topic in (TOPIC, LETTERS):
        fake.create_topic(topic, 1)
    fake.append(TOPIC, 0, b"1")
    return fake


@_RUNNERS
def test_nothing_is_left_of_failed_attempts(runner: _Runner, one_message: FakeKafka) -> None:
    """The bug: each failure was a reference cycle, and the last error was kept for the whole wait:
    connections stayed open, and their transactions kept locks that the next attempt met."""
    attempts = _Attempts([OutageError(), OutageError()])
    runner(one_message, attempts)
    assert [0, 0, 0] == attempts.left


@pytest.mark.parametrize(
    ("error", "options"),
    [
        (OutageError(), {"strategy": [], "on_exhausted": "stop"}),
        (PoisonError(), {"on_permanent": "stop"}),
    ],
)
def test_the_cause_of_a_stop_keeps_no_frame(
    error: Exception, options: dict[str, Any], one_message: FakeKafka
) -> None:
    """With `"stop"` the handler's exception is the cause, with its lines and without its locals."""
    attempts = _Attempts([error])
    with pytest.raises((ExhaustedError, PermanentError)) as ended:
        _run(one_message, attempts, **options)
    assert ended.value.__cause__ is error
    assert "_fail(_Connection())" in "".join(traceback.format_exception(error))
    assert error.__context__ is None
    attempts.attempt()
    assert 1 == attempts.left[-1]  # `error` itself


def test_recovery_is_given_an_exception_without_frames(one_message: FakeKafka) -> None:
    """The exception is the handler's own, with its lines; the connections are gone before it is
    handed over, and it is gone when the callback has taken the message."""
    attempts = _Attempts([OutageError("down")])
    given: list[str] = []

    def callback(_: Message, error: Exception) -> None:
        attempts.attempt()
        given.append("".join(traceback.format_exception(error)))
        if len(given) == 1:
            raise OSError("not yet")

    one_message.append(TOPIC, 0, b"2")
    _run(one_message, attempts, strategy=[], on_exhausted=Recovery(callback))
    first, second = given
    assert first == second
    assert "_fail(_Connection())" in first
    assert "OutageError: down" in first
    assert [0, 1, 1, 0] == attempts.left  # while it waits for the callback: the exception alone


def test_a_callback_that_raises_what_it_was_given(one_message: FakeKafka) -> None:
    """The bug: the frames of each call hung on the error, which is kept until the next call, and
    what they held, such as a lock, with them."""
    opened: list[weakref.ref[_Connection]] = []
    left: list[int] = []
    lines: set[int] = set()

    def callback(_: Message, error: Exception) -> None:
        connection = _Connection()
        left.append(sum(found() is not None for found in opened))
        opened.append(weakref.ref(connection))
        lines.add(len(traceback.extract_tb(error.__traceback__)))
        if len(opened) < 3:
            raise error

    one_message.append(TOPIC, 0, b"2")
    options = {"strategy": [], "on_exhausted": Recovery(callback)}
    _run(one_message, _Attempts([OutageError("down")]), **options)
    assert ([0, 0, 0], 1) == (left, len(lines))


def test_what_still_runs_goes_on(one_message: FakeKafka) -> None:
    """A connection pool hands its own exception to who waits for it, and its task goes on: its
    frame is in the traceback, and to clear a waiting frame ends it before Python 3.13."""
    handled: list[int] = []

    async def main() -> None:
        requests: asyncio.Queue[asyncio.Future[int]] = asyncio.Queue()

        async def connect(number: int) -> int:
            await asyncio.sleep(0)
            if number < 2:
                raise OutageError
            return number

        async def pool() -> None:
            number = 0
            while True:
                answer = await requests.get()
                try:
                    answer.set_result(await connect(number))
                except OutageError as error:
                    answer.set_exception(error)
                number += 1

        task = asyncio.create_task(pool())
        async with consumer_on(one_message) as consumer:

            async def handler(_: Message) -> None:
                answer = asyncio.get_running_loop().create_future()
                requests.put_nowait(answer)
                handled.append(await asyncio.wait_for(answer, 10))
                consumer.stop()

            await consumer.run_async(handler)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task

    awaiting(main())
    assert [2] == handled


def test_a_generator_that_goes_on(one_message: FakeKafka) -> None:
    """A generator of the program yields the exception that it has met: it is asked again."""

    def answers() -> Generator[Exception | None]:
        for _ in range(2):
            try:
                raise OutageError
            except OutageError as error:
                yield error
        yield None

    coming = answers()
    attempts: list[Exception | None] = []
    with consumer_on(one_message) as consumer:

        def handler(_: Message) -> None:
            attempts.append(next(coming))
            if (error := attempts[-1]) is not None:
                raise error
            consumer.stop()

        consumer.run(handler)
    assert [OutageError, OutageError, type(None)] == [type(one) for one in attempts]
