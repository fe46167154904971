"""A function of a user's that returns work which nobody would do has not done it."""

import asyncio
import functools
from collections.abc import Callable, Generator
from concurrent.futures import Future
from pathlib import Path
from typing import Any

import pytest

from linear_retry import ConfigurationError, Recovery, UsageError, events
from linear_retry.outbox import Outbox
from tests.consumer.group import LETTERS, TOPIC, OutageError
from tests.consumer.runners.async_life import Life
from tests.fake.cluster import FakeKafka


async def _charge(*_: object) -> None:
    """Never awaited."""


def _rows(*_: object) -> Generator[int]:
    yield 1


class _Submits:
    async def __call__(self, *_: object) -> None:
        """Never awaited."""


_NEVER_RUN = pytest.mark.parametrize("call", [_charge, _rows, _Submits()], ids=str)
_UNDONE = pytest.mark.parametrize(
    "call", [lambda *_: _charge(), lambda *_: _rows(), lambda *_: Future()], ids=str
)


@pytest.fixture
def fake() -> FakeKafka:
    """One message."""
    kafka = FakeKafka(balanced=True)
    for topic in (TOPIC, LETTERS):
        kafka.create_topic(topic, 1)
    kafka.append(TOPIC, 0, b"1")
    return kafka


@_UNDONE
def test_a_recovery_that_would_not_run(fake: FakeKafka, call: Callable[..., object]) -> None:
    """The bug: a coroutine or a future that it returned counted as done. The offset was committed,
    and nothing had run."""
    life = Life(fake, strategy=[], on_exhausted=Recovery(call))

    def handler(_: object) -> None:
        raise OutageError

    with (
        life.consumer,
        pytest.raises(UsageError, match=r"@0: Recovery callback=.*as done"),
    ):
        life.consumer.run(handler)
    assert (0, []) == (life.committed, life.emitted(events.HandedOver))


@_UNDONE
def test_a_predicate_that_would_not_run(fake: FakeKafka, call: Callable[..., object]) -> None:
    """The bug: a coroutine is true, so that every bug was retried like an outage."""
    life = Life(fake, transient=call)

    def handler(_: object) -> None:
        raise OutageError

    with life.consumer, pytest.raises(UsageError, match="transient= returned an object of type"):
        life.consumer.run(handler)
    assert (0, []) == (life.committed, life.emitted(events.CircuitOpened))


@_UNDONE
def test_a_listener_that_would_not_run(
    fake: FakeKafka, call: Callable[..., object], caplog: pytest.LogCaptureFixture
) -> None:
    """The bug: an event that a listener never wrote, as it returned a coroutine, was missed by
    nobody. It is logged, and the consumer goes on; once for each listener, since the work may be
    under way: a listener that returned the future of an executor logged an error at each event."""
    life = Life(fake, listeners=[call, lambda event: call(event)])
    with life.consumer:
        life.consumer.run(life.watched_plain(lambda _: life.consumer.stop()))
    said = [one for one in caplog.messages if "the listener" in one]
    assert (2, True) == (len(said), all("returned an object of type" in one for one in said))
    assert (1, True) == (life.committed, len(life.events) > 1)


def test_what_wraps_a_coroutine_function_and_runs_it() -> None:
    """The bug: refused for what it wraps, although it returns once that has run."""

    @functools.wraps(_charge)
    def run(*given: object) -> None:
        asyncio.run(_charge(*given))

    Recovery(run)


def test_what_wraps_a_coroutine_function_and_returns_its_coroutine(fake: FakeKafka) -> None:
    """Nothing tells before the first call; then it is as for any other that returns one."""

    @functools.wraps(_charge)
    def passed_on(*given: object) -> object:
        return _charge(*given)

    life = Life(fake)
    with life.consumer, pytest.raises(UsageError, match="as done"):
        life.consumer.run(passed_on)
    assert 0 == life.committed


@_NEVER_RUN
@pytest.mark.parametrize(
    "give",
    [
        lambda call: Life(FakeKafka(), listeners=[call]),
        lambda call: Life(FakeKafka(), transient=call),
        Recovery,
    ],
    ids=["listeners", "transient", "on_exhausted"],
)
def test_what_would_never_run_is_refused_at_once(
    call: Callable[..., Any], give: Callable[..., object]
) -> None:
    """Before the first message, whatever the function is for."""
    with pytest.raises(ConfigurationError, match="function would never"):
        give(call)


@_NEVER_RUN
def test_an_outbox_refuses_it_too(call: Callable[..., Any], tmp_path: Path) -> None:
    """Of a message that is lost nobody would be told."""
    with pytest.raises(ConfigurationError, match=r"recover=.*function would never"):
        Outbox({"bootstrap.servers": "127.0.0.1:1"}, store=f"sqlite:///{tmp_path}/o", recover=call)


@_UNDONE
def test_an_on_delivery_that_would_not_run(call: Callable[..., Any], tmp_path: Path) -> None:
    """The bug: an `async def` as `on_delivery` was never awaited, and its warning is at another
    line. The call that runs callbacks raises."""
    config = {"bootstrap.servers": "127.0.0.1:1", "message.timeout.ms": 100}
    outbox = Outbox(config, store=f"sqlite:///{tmp_path}/o.db", sender=False)
    outbox.produce("orders", b"1", on_delivery=call)
    with pytest.raises(UsageError, match=r"on_delivery=.* returned an object of type"):
        outbox.flush()
    outbox.close()
