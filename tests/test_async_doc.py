"""Is what docs/async.md says true?"""

from __future__ import annotations

import asyncio
import builtins
import os
import re
import signal
import subprocess
import sys
import threading
from contextlib import asynccontextmanager
from typing import Any

import pytest

from linear_retry import LinearConsumer, PermanentError
from linear_retry.kafka import Message
from tests.consumer.group import GROUP, LETTERS, TOPIC, PoisonError, consumer_on
from tests.fake.cluster import FakeKafka
from tests.markdown import blocks, code, page, table
from tests.test_readme import Charges, broker_with_orders, reasons

_PAGE = page("docs/async.md")
_PROGRAM, _BLOCKING, _LIFESPAN, _BOTH = blocks(_PAGE, "python")


def test_the_example_runs() -> None:
    """The example, run as a program: in order, retried, dead-lettered, and ended by SIGTERM."""
    charges = Charges()
    with broker_with_orders(b"1", b"2", b"3", b"4", b"5") as broker, charges.served() as url:
        program = _PROGRAM
        for written, here in (
            ("localhost:9092", broker.bootstrap),
            ("http://localhost:8000", url),
            ("RetryAfter(10)", "RetryAfter(1)"),
        ):
            assert 1 == program.count(written)
            program = program.replace(written, here)
        _run(program, charges.last_one)
        assert [(b"4", "permanent")] == reasons(broker)
    offsets = [("1", 0), ("2", 1), ("2", 1), ("3", 2), ("3", 2), ("4", 3), ("5", 4)]
    expected = [(order.encode(), f"orders/0/{offset}") for order, offset in offsets]
    assert expected == charges.received


def _run(program: str, last_one: threading.Event) -> None:
    with subprocess.Popen(
        [sys.executable, "-W", "error", "-c", program],
        stderr=subprocess.PIPE,
        text=True,
        env=os.environ | {"NO_PROXY": "127.0.0.1"},
    ) as child:
        try:
            assert last_one.wait(30), "the example stands still"
            child.send_signal(signal.SIGTERM)
            said = child.communicate(timeout=30)[1]
        finally:
            child.kill()
    assert 0 == child.returncode, said
    assert "never awaited" not in said
    assert "was destroyed" not in said


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
        "asyncio": asyncio,
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
        *(code(row[0])[0] for row in table(page("README.md"), "error")),
    }
    words = {word for row in table(_PAGE, "what") for cell in row for word in code(cell)}
    assert set() == {re.sub(r"\(.*\)", "", word) for word in words} - known - {"run"}
