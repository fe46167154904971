"""A handler that cannot work is refused; what came of a batch is noted truly at any interrupt."""

import asyncio
import functools
import itertools
import types
from collections.abc import AsyncIterator, Callable, Generator, Iterator
from concurrent.futures import Future
from typing import Any
from unittest.mock import AsyncMock, MagicMock, Mock

import pytest

from linear_retry import LinearConsumer, Strategy, UsageError, events
from linear_retry.consumer.ownership.stop import StopFlag
from linear_retry.consumer.runners.run_handler import (
    Batch,
    Results,
    attempt_all,
    check_async_handler,
    check_handler,
)
from linear_retry.kafka import Message
from linear_retry.retry.callables import UndoneError
from tests.consumer.group import TOPIC, PoisonError
from tests.consumer.runners.async_life import Life, awaiting
from tests.fake.cluster import FakeKafka


class _Interrupted(list[Message]):
    """A Ctrl-C comes as someone asks how many of them are still to be taken."""

    def __iter__(self) -> Iterator[Message]:
        return _Coming(self.copy())


class _Coming(Iterator[Message]):
    def __init__(self, messages: list[Message]) -> None:
        self._messages = messages

    def __next__(self) -> Message:
        if not self._messages:
            raise StopIteration
        return self._messages.pop(0)

    def __length_hint__(self) -> int:
        raise KeyboardInterrupt


def test_an_interrupt_as_a_failure_is_noted(fake: FakeKafka) -> None:
    """No message takes the blame for another's failure. The bug: the first of the batch, which had
    been handled, got a dead letter with the error of a later one."""
    batch = Batch(_Interrupted(Message(topic=TOPIC, partition=0, offset=n) for n in range(3)))
    stop = StopFlag()
    stop.allow_until(float("inf"))

    def handle(message: Message) -> None:
        if message.offset() == 1:
            raise PoisonError

    with pytest.raises(KeyboardInterrupt):
        attempt_all(batch, handle, stop, fake.clock.now_s, Results())
    assert (0, None) == (batch.handled, batch.error)


@pytest.mark.parametrize("interrupt", [KeyboardInterrupt(), SystemExit(), GeneratorExit()])
def test_an_interrupt_in_the_handler(fake: FakeKafka, interrupt: BaseException) -> None:
    """What the handler has returned from is done; the message in hand is not, and has not failed:
    it is the program that ends."""
    batch = Batch([Message(topic=TOPIC, partition=0, offset=n) for n in range(3)])
    stop = StopFlag()
    stop.allow_until(float("inf"))

    def handle(message: Message) -> None:
        if message.offset() == 1:
            raise interrupt

    with pytest.raises(type(interrupt)):
        attempt_all(batch, handle, stop, fake.clock.now_s, Results())
    assert (2, 1, None) == (batch.taken, batch.handled, batch.error)


async def _charge(_: object = None) -> None:
    """Never awaited."""


def _rows(_: object = None) -> Generator[int]:
    yield 1


async def _async_rows(_: object = None) -> Any:
    yield 1


@types.coroutine
def _old_charge(_: object = None) -> Generator[None, None, None]:
    yield


class _Later:
    def __await__(self) -> Generator[None, None, None]:
        yield


def _pending() -> Any:
    """What `asyncio.ensure_future` gives: a future of a loop."""
    loop = asyncio.new_event_loop()
    loop.close()
    return asyncio.Future(loop=loop)


_UNDONE: list[Callable[[], object]] = [
    _charge,
    _rows,
    _async_rows,
    _old_charge,
    _Later,
    _pending,
    Future,
    AsyncMock(),
    lambda: map(print, [1]),
    lambda: filter(print, [1]),
    lambda: itertools.starmap(print, [(1,)]),
]


@pytest.mark.parametrize("undone", _UNDONE, ids=str)
def test_work_that_nobody_would_do_is_refused(
    fake: FakeKafka, undone: Callable[[], object]
) -> None:
    """Also where only the handler of a later message returns it: those before are committed, it is
    not, and no letter is sent. The bug: only the first result of a run was looked at, so a function
    that hands each message to its handler lost all those of an `async def` in silence."""
    life = Life(fake)
    handle = life.watched_plain(lambda _: undone() if len(life.begun) == 3 else None)
    with life.consumer, pytest.raises(UsageError, match=r"orders\[\d\]@\d+: handler=.*done; "):
        life.consumer.run(handle)
    assert (3, 2, 0) == (len(life.begun), life.committed, life.letters)
    assert [] == life.emitted(events.CircuitOpened)
    assert [] == life.violations()


@pytest.mark.parametrize("undone", _UNDONE, ids=str)
def test_what_is_returned_once_awaited_is_looked_at_too(
    fake: FakeKafka, undone: Callable[[], object]
) -> None:
    """An async handler that forgets an `await` has not handled its message either."""
    life = Life(fake)

    async def handle(_: Message) -> object:
        return undone() if len(life.begun) == 3 else None

    with pytest.raises(UsageError, match=r"orders\[\d\]@\d+: handler=.*once awaited, "):
        awaiting(life.run(handle))
    assert (3, 2, 0) == (len(life.begun), life.committed, life.letters)
    assert [] == life.violations()


@pytest.mark.parametrize(
    "result",
    [
        *(None, 0, "text", b"bytes", [], {"a": 1}, object(), object, print),
        *(
            MagicMock(),
            Mock(),
            Mock(spec=Future),
            AsyncMock(),
            iter([1]),
            zip([1], [2], strict=True),
        ),
    ],
    ids=str,
)
def test_all_else_is_harmless(result: object) -> None:
    """A handler may return what it likes: a mock has every attribute, and is no awaitable."""
    results = Results()
    results.check(result)
    assert type(result) in results.harmless


def test_what_is_known_is_bounded() -> None:
    """Each mock has a type of its own; a consumer that runs for months keeps a few."""
    results = Results()
    for _ in range(1000):
        results.check(MagicMock())
    assert 64 == len(results.harmless)
    with pytest.raises(UndoneError):
        results.check(_rows())


@pytest.mark.filterwarnings("error")
def test_a_coroutine_is_closed(fake: FakeKafka) -> None:
    """One error says what is wrong: no warning follows of a coroutine that was never awaited."""
    life = Life(fake)
    with life.consumer, pytest.raises(UsageError, match="coroutine") as raised:
        life.consumer.run(lambda message: _charge(message))
    assert "run_async" in str(raised.value)


def test_of_a_future_its_result_is_wanted(fake: FakeKafka) -> None:
    """`return executor.submit(...)` is told from what has to be awaited."""
    life = Life(fake)
    with life.consumer, pytest.raises(UsageError, match=r"call its result\(\) in the function"):
        life.consumer.run(life.watched_plain(lambda _: Future()))


_LEAST = {"bootstrap.servers": "localhost:9092", "group.id": "billing"}


def _plain(message: object) -> None: ...


async def _coroutine(message: object) -> None: ...


def _generator(message: object) -> Iterator[int]:
    yield 1


async def _asynchronous_generator(message: object) -> AsyncIterator[int]:
    yield 1


@functools.wraps(_coroutine)
def _running_a_coroutine(message: object) -> None:
    asyncio.run(_coroutine(message))


@functools.wraps(_plain)
async def _asynchronous_wrapper(message: object) -> None: ...


class _Callable:
    def __call__(self, message: object) -> None: ...

    def method(self, message: object) -> None: ...

    async def coroutine(self, message: object) -> None: ...

    @classmethod
    async def of_class(cls, message: object) -> None: ...

    @staticmethod
    async def of_none(message: object) -> None: ...


class _OfAMessage:
    def __init__(self, message: object) -> None: ...


def _of_two(url: str, message: object) -> None: ...


@functools.wraps(_of_two)
def _injected(message: object) -> None:
    _of_two("url", message)


def _of_none() -> None: ...


class _AsynchronousCallable:
    async def __call__(self, message: object) -> None: ...


class _GeneratorCallable:
    def __call__(self, message: object) -> Iterator[int]:
        yield 1


@pytest.mark.parametrize(
    "handler",
    [
        _plain,
        lambda message: None,
        _Callable(),
        _Callable().method,
        functools.partial(_plain),
        functools.partial(functools.partial(_plain)),
        functools.partial(_Callable()),
        print,
        [].append,
        _OfAMessage,
        dict,
        MagicMock(),
        _injected,
        lambda *messages: None,
        lambda message, times=3: None,
        functools.partial(_of_two, "url"),
        lambda message: asyncio.run(_coroutine(message)),
        # The bug: refused for what it wraps, although its call returns once that has run.
        _running_a_coroutine,
        functools.partial(_running_a_coroutine),
    ],
    ids=repr,
)
def test_a_handler_is_anything_that_can_be_called(handler: object) -> None:
    """Functions, methods, partials, objects, lambdas and builtins are all fine."""
    check_handler(handler)


@pytest.mark.parametrize("handler", [None, 7, "charge", object(), ["charge"]], ids=repr)
def test_what_cannot_be_called_is_no_handler(handler: object) -> None:
    """Known before the first message, not by it."""
    with pytest.raises(UsageError, match=r"^handler=.*: must be a callable of one message"):
        check_handler(handler)


@pytest.mark.parametrize(
    "handler",
    [
        _coroutine,
        _Callable().coroutine,
        _Callable.of_class,
        _Callable.of_none,
        _AsynchronousCallable(),
        functools.partial(_coroutine),
        functools.partial(functools.partial(_coroutine)),
        functools.partial(_AsynchronousCallable()),
        _asynchronous_wrapper,
        functools.partial(_asynchronous_wrapper),
    ],
    ids=repr,
)
def test_a_coroutine_function_would_never_be_awaited(handler: object) -> None:
    """Calling it does nothing, and would count as done: every message would be lost."""
    with pytest.raises(UsageError, match="a coroutine function would never be awaited"):
        check_handler(handler)


@pytest.mark.parametrize(
    "handler",
    [
        _generator,
        _asynchronous_generator,
        _GeneratorCallable(),
        functools.partial(_generator),
        functools.partial(_GeneratorCallable()),
    ],
    ids=repr,
)
def test_a_generator_function_would_never_run(handler: object) -> None:
    """A stray `yield` in a handler loses every message just as silently."""
    with pytest.raises(
        UsageError, match="a generator function would never run; give a plain function"
    ):
        check_handler(handler)


@pytest.mark.parametrize("check", [check_handler, check_async_handler])
@pytest.mark.parametrize(
    "handler",
    [
        _of_none,
        _of_two,
        _Callable,
        _Callable.method,
        list.append,
        lambda *, message: None,
        functools.partial(_plain, "message"),
        functools.partial(_of_two, url="url"),
    ],
    ids=repr,
)
def test_a_handler_takes_one_message(check: Callable[[object], None], handler: object) -> None:
    """The bug: a TypeError at each message, which is permanent, so in a moment the whole topic was
    in the dead letters."""
    with pytest.raises(UsageError, match="cannot be called with one message, by position"):
        check(handler)


def test_a_handler_of_batches_takes_two_things() -> None:
    """What is called with more is checked in the same way."""
    check_handler(_of_two, "rows and a number")
    with pytest.raises(UsageError, match="cannot be called with rows and a number"):
        check_handler(_plain, "rows and a number")


def test_run_checks_the_handler_before_anything_else() -> None:
    """No client is made, and the consumer can still be run with a right one."""
    consumer = LinearConsumer(
        _LEAST, ["orders"], strategy=Strategy([1]), transient=OSError, dead_letters="dead"
    )
    with pytest.raises(UsageError):
        consumer.run(_coroutine)  # type: ignore[unused-coroutine]  # what type checkers refuse
    consumer.close()
