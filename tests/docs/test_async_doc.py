"""docs/guides/async.md is true."""

import asyncio
import builtins
import re
import signal
import threading
from contextlib import asynccontextmanager
from typing import Any

import pytest

from linear_retry import LinearConsumer, LinearRetryError, PermanentError
from linear_retry.kafka import Message
from tests.charges import run_example
from tests.consumer.group import GROUP, LETTERS, TOPIC, PoisonError, consumer_on
from tests.docs.markdown import blocks, code, page, table
from tests.fake.cluster import FakeKafka

_PAGE = page("docs/guides/async.md")
_PROGRAM, _BLOCKING, _LIFESPAN, _TOGETHER, _BOTH = blocks(_PAGE, "python")


def test_the_example_runs() -> None:
    """The example does what the README's does, and leaves nothing that was never awaited."""
    output = run_example(_PROGRAM, "-W", "error")
    assert "never awaited" not in output
    assert "was destroyed" not in output


def _consumer() -> tuple[FakeKafka, LinearConsumer]:
    fake = FakeKafka(balanced=True)
    fake.create_topic(TOPIC, 1)
    fake.create_topic(LETTERS, 1)
    for _ in range(3):
        fake.append(TOPIC, 0)
    return fake, consumer_on(fake, on_permanent="stop")


def test_a_blocking_client_in_a_thread() -> None:
    """The handler that calls it elsewhere."""
    fake, consumer = _consumer()
    seen: list[str] = []

    def charge(message: Message) -> None:
        seen.append(threading.current_thread().name)
        if len(seen) == 3:
            consumer.stop()

    names: dict[str, Any] = {"asyncio": asyncio, "charge": charge}
    exec(_BLOCKING, names)
    asyncio.run(consumer.run_async(names["handle"]))
    assert {(TOPIC, 0): 3} == fake.group(GROUP)
    assert threading.main_thread().name not in seen


def test_in_the_life_of_a_web_server() -> None:
    """It runs as long as the server does, and is closed when that ends."""
    fake, consumer = _consumer()
    seen: list[Message] = []

    async def charge(message: Message) -> None:
        seen.append(message)
        if len(seen) == 3:
            all_seen.set()

    names: dict[str, Any] = {
        "asynccontextmanager": asynccontextmanager,
        "charge": charge,
        "consumer": consumer,
    }
    exec(_LIFESPAN, names)
    all_seen = asyncio.Event()

    async def serve() -> None:
        async with names["lifespan"](None):
            await all_seen.wait()

    asyncio.run(serve())
    assert ({(TOPIC, 0): 3}, True) == (fake.group(GROUP), fake.consumers[0].closed)


def test_a_server_that_does_not_outlive_the_consumer() -> None:
    """The error ends the block; the server hears the signal, and the error goes on."""
    _, consumer = _consumer()
    heard: list[int] = []

    async def charge(_: Message) -> None:
        raise PoisonError

    names: dict[str, Any] = {
        "LinearRetryError": LinearRetryError,
        "asynccontextmanager": asynccontextmanager,
        "charge": charge,
        "consumer": consumer,
        "signal": signal,
    }
    exec(_TOGETHER, names)

    async def serve() -> None:
        async with names["ending_together"](None):
            await asyncio.get_running_loop().create_future()

    before = signal.signal(signal.SIGTERM, lambda number, _: heard.append(number))
    with pytest.raises(PermanentError):
        asyncio.run(serve())
    signal.signal(signal.SIGTERM, before)
    assert [signal.SIGTERM] == heard


def test_both_in_a_group() -> None:
    """An error of one cancels the other, which closes too."""
    (first, billing), (second, refunds) = _consumer(), _consumer()
    begun = asyncio.Event()

    async def charge(_: Message) -> None:
        begun.set()
        await asyncio.get_running_loop().create_future()

    async def pay_back(_: Message) -> None:
        await begun.wait()
        raise PoisonError

    names: dict[str, Any] = {
        "asyncio": asyncio,
        "billing": billing,
        "charge": charge,
        "refunds": refunds,
        "pay_back": pay_back,
    }
    exec(_BOTH, names)
    with pytest.raises(ExceptionGroup) as caught:
        asyncio.run(names["both"]())
    assert [PermanentError] == [type(error) for error in caught.value.exceptions]
    assert [True, True] == [fake.consumers[0].closed for fake in (first, second)]
    assert [0, 0] == [sum(fake.group(GROUP).values()) for fake in (first, second)]


def test_the_table_names_what_exists() -> None:
    """Each error and method in the table of ends is there."""
    known = {
        *dir(LinearConsumer),
        *dir(asyncio),
        *dir(signal),
        *dir(builtins),
        *(code(row[0])[0] for row in table(page("docs/reference/errors.md"), "error")),
    }
    words = {word for row in table(_PAGE, "what") for cell in row for word in code(cell)}
    assert set() == {re.sub(r"\(.*\)", "", word) for word in words} - known - {"run"}
