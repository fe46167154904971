"""A handler that cannot do its work is refused before any message is touched."""

import asyncio
import functools
from collections.abc import AsyncIterator, Callable, Iterator
from unittest.mock import MagicMock

import pytest

from linear_retry import LinearConsumer, Strategy, UsageError
from linear_retry.consumer.runners.handler_checks import check_async_handler, check_handler

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
