"""Every legal form of every public call, for a type checker: checked, never run."""

import asyncio
import functools
import urllib.error
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import Future
from datetime import datetime, timedelta
from pathlib import Path
from typing import Never, assert_type

import httpx
from confluent_kafka import Message

import linear_retry
from linear_retry import (
    Attempt,
    AttemptInfo,
    Backlog,
    BatchError,
    CircuitView,
    DeadLetters,
    Event,
    ExhaustedError,
    Health,
    LinearConsumer,
    Listener,
    PermanentError,
    RetryAfter,
    Rule,
    Scope,
    Strategy,
    StrategyError,
    StrategyFile,
    current_attempt,
    run_together,
    run_together_async,
)
from linear_retry.events import CircuitOpened, DeadLettered
from linear_retry.monitoring.tracing import Tracing


def handler(message: Message) -> None:
    value: bytes | str | None = message.value()
    if value is None:
        raise RetryAfter(30)
    raise RetryAfter(0.5, "busy")


async def together(live: LinearConsumer, retry: LinearConsumer) -> None:
    def create() -> LinearConsumer:
        return retry

    run_together(live, create, handler)
    run_together(live, create, returning, threads=True)
    run_together(live, create, Charging())
    await run_together_async(live, create, awaited)


def returning(message: Message) -> int:
    return message.offset() or 0


def with_more(message: Message, *, url: str, times: int = 3) -> None: ...


class Charging:
    def __call__(self, message: Message) -> None: ...

    def method(self, message: Message) -> object: ...


def strategies() -> None:
    assert_type(Strategy([1, 5, 0.25, "30s", {"every": "5m", "times": 2}]), Strategy)
    Strategy([])
    Strategy((1, 2, 3))
    Strategy(
        [{"exponential": {"initial": 1, "factor": 2, "max": "5m", "times": 10}}],
        jitter=0.1,
        max_elapsed="1h",
        name="steps",
        description="for short outages",
    )
    loaded = Strategy.load("strategies/short-outage.json")
    assert_type(Strategy.load(Path("strategies") / "short-outage.json"), Strategy)
    assert_type(Strategy.named("short-outage"), Strategy)
    assert_type(loaded.delay_s(1), float | None)
    assert_type(loaded.reached_ms(1.5), tuple[int, ...])
    assert_type(loaded.delay_s(2, lambda: 0.5), float | None)
    assert_type(list(loaded), list[float])
    assert_type(len(loaded), int)
    assert_type(
        (loaded.max_elapsed_s, loaded.distinct_delays_ms), tuple[float | None, tuple[int, ...]]
    )
    assert_type((loaded.total_s, loaded.name, loaded.fingerprint), tuple[float, str, str])


def consumers() -> None:
    config = {"bootstrap.servers": "localhost:9092", "group.id": "billing"}
    mixed: dict[str, object] = {**config, "session.timeout.ms": 6000, "error_cb": print}
    strategy = Strategy([1])
    seen: list[Event] = []
    LinearConsumer(config, ["orders"], strategy=strategy, transient=OSError, dead_letters="dead")
    LinearConsumer(
        mixed,
        ("orders", "^refunds-.*"),
        strategy=strategy,
        transient=(ConnectionError, TimeoutError),
        dead_letters=DeadLetters("dead"),
    )
    LinearConsumer(
        config,
        ["orders"],
        strategy=strategy,
        transient=[ConnectionError],
        dead_letters=DeadLetters("dead", config={"linger.ms": 5}, oversized="reference", hold="5m"),
        on_exhausted="repeat",
        on_permanent="skip",
    )
    LinearConsumer(
        config,
        ["orders"],
        strategy=strategy,
        transient=lambda error: isinstance(error, OSError) and error.errno is not None,
        on_exhausted="stop",
        on_permanent="stop",
        scope="partition",
        listeners=[listener, print, seen.append],
        start_timeout_s=5,
        close_timeout_s=2.5,
        control="control",
        group_breaker=False,
        group_breaker_max_s=30,
    )


def _is_down(error: Exception) -> bool:
    return isinstance(error, OSError)


def _is_any(error: BaseException) -> object:
    return error


def more_consumers(names: Sequence[str]) -> None:
    config = {"bootstrap.servers": "localhost:9092", "group.id": "billing"}
    strategy = Strategy([1])
    LinearConsumer(config, [*names], strategy=strategy, transient=_is_any, dead_letters="dead")
    LinearConsumer(
        config,
        "orders",  # type: ignore[arg-type]  # six topics of one letter each
        strategy=strategy,
        transient=OSError,
        dead_letters="dead",
    )


def never(message: Message) -> Never:
    raise RetryAfter(1)


def waits(response: httpx.Response, error: urllib.error.HTTPError) -> list[RetryAfter]:
    asked = RetryAfter(response.headers["Retry-After"])
    assert_type(asked.seconds, float)
    assert_type(RetryAfter.from_response(response), RetryAfter)
    return [
        *(asked, RetryAfter(), RetryAfter(None), RetryAfter(timedelta(seconds=5))),
        *(RetryAfter(datetime.now()), RetryAfter.from_response(error)),
    ]


def stored(messages: list[Message]) -> int:
    for index, message in enumerate(messages):
        if message.value() is None:
            raise BatchError(index, ValueError("no order"))
    return len(messages)


def in_batches(consumer: LinearConsumer) -> None:
    assert_type(consumer.run_batches(stored), None)
    consumer.run_batches(lambda messages: len(messages), max_messages=10, max_bytes=1_000)
    consumer.run_batches(handler)  # type: ignore[arg-type]  # of one message
    consumer.run_batches(stored, 10)  # type: ignore[call-arg]  # of what?


def running(consumer: LinearConsumer) -> None:
    with consumer as entered:
        assert_type(entered, LinearConsumer)
        entered.run(handler)
    consumer.run(returning)
    consumer.run(Charging())
    consumer.run(Charging().method)
    consumer.run(lambda message: message.value())
    consumer.run(never)
    assert_type(consumer.run(handler), None)
    consumer.run(awaited)  # type: ignore[unused-coroutine]  # for run_async
    consumer.run(ChargingLater())  # type: ignore[unused-coroutine]
    consumer.run(functools.partial(awaited_with_more, url=""))  # type: ignore[unused-coroutine]
    consumer.run(functools.partial(with_more, url="http://localhost"))
    consumer.stop()
    consumer.close()


async def awaited(message: Message) -> None: ...


async def awaited_with_more(message: Message, *, url: str) -> int:
    return len(url)


def giving_a_future(message: Message) -> asyncio.Future[bytes]:
    return asyncio.get_running_loop().create_future()


class ChargingLater:
    async def __call__(self, message: Message) -> None: ...

    async def method(self, message: Message) -> object: ...


async def awaiting(consumer: LinearConsumer) -> None:
    with consumer:
        await consumer.run_async(awaited)
    await consumer.run_async(ChargingLater())
    await consumer.run_async(ChargingLater().method)
    await consumer.run_async(functools.partial(awaited_with_more, url="http://localhost"))
    await consumer.run_async(lambda message: awaited(message))
    await consumer.run_async(giving_a_future)
    async with asyncio.timeout(5), asyncio.TaskGroup() as tasks:
        assert_type(tasks.create_task(consumer.run_async(awaited)), asyncio.Task[None])
    await consumer.run_async(handler)  # type: ignore[arg-type]  # nothing to await
    async with consumer.running(awaited) as entered:
        assert_type(entered, LinearConsumer)
    consumer.running(handler)  # type: ignore[arg-type]


async def closing(consumer: LinearConsumer) -> None:
    async with consumer as entered:
        assert_type(entered, LinearConsumer)
    assert_type(linear_retry.__version__, str)


def own_loop(consumer: LinearConsumer) -> int:
    """`return` in the body is legal; the `with` may swallow what is raised in it."""
    assert_type(iter(consumer), Iterator[Attempt])
    assert_type(next(consumer), Attempt)
    for attempt in consumer:
        assert_type(attempt.number, int)
        assert_type(attempt.info, AttemptInfo)
        with attempt as message:
            assert_type(message, Message)
            if message.value() is None:
                return attempt.number
            attempt.fail(ConnectionError("down"))
        assert_type(attempt.error, Exception | None)
        if attempt.state == "failed":
            break
    return 0


async def traced(consumer: LinearConsumer, tracing: Tracing) -> None:
    consumer.run(tracing.traced(handler))
    consumer.run(tracing.traced(functools.partial(with_more, url="http://ledger")))
    await consumer.run_async(tracing.traced(awaited))
    await consumer.run_async(tracing.traced(giving_a_future))
    for attempt in consumer:
        with tracing.attempt(attempt) as message:
            assert_type(message, Message)


def choosing(config: dict[str, object]) -> None:
    rules = [
        Rule([1, "30s"], errors=TimeoutError),
        Rule(Strategy([1]), errors=(OSError,), topics=["orders.*"]),
        Rule([5], errors=lambda error: "down" in str(error), topics="*"),
    ]
    assert_type(rules[0].takes(OSError(), "orders"), bool)
    LinearConsumer(config, ["orders"], strategy=rules, dead_letters="orders.dlq")
    assert_type(Rule.load("rules.json"), list[Rule])
    file = StrategyFile("pay.json")
    LinearConsumer(config, ["orders"], strategy=file, transient=OSError, dead_letters="orders.dlq")
    assert_type(file.current(), Strategy)


def asking(attempt: AttemptInfo) -> None:
    assert_type(current_attempt(), AttemptInfo)
    assert_type((attempt.number, attempt.failures), tuple[int, int])
    assert_type(attempt.first_failure, datetime | None)
    assert_type(attempt.next_delay_s, float | None)
    assert_type((attempt.is_last, attempt.message_id), tuple[bool, str])


def looking(consumer: LinearConsumer) -> None:
    assert_type(consumer.circuits, Mapping[Scope, CircuitView])
    view = consumer.circuits[Scope()]
    consumer.circuits.get(Scope("orders", 0))
    assert_type(view.retry_at, datetime | None)
    assert_type(view.failures, int | None)
    assert_type(view.error, str | None)
    assert_type(view.since, datetime | None)
    assert_type(consumer.health(), Health)
    assert_type(consumer.health().until, datetime | None)
    assert_type(consumer.lag(), dict[tuple[str, int], int])
    assert_type(consumer.backlog(), dict[tuple[str, int], Backlog])
    assert_type(consumer.counts.succeeded, int)
    if view.state == "half-open":
        consumer.breaker().name = "mine"
    consumer.breaker(Scope("orders")).add_listeners()


def operating(consumer: LinearConsumer) -> None:
    assert_type(consumer.retry_now("orders", 3, 1042), Future[bool])
    assert_type(consumer.skip_unreadable("orders", 3, 1042), Future[bool])
    assert_type(consumer.give_up("orders", partition=3, offset=1042).result(timeout=5), bool)
    assert_type(consumer.open_circuit(60, "maintenance", topic="orders"), Future[bool])
    assert_type(consumer.close_circuit(), Future[bool])


def listener(event: Event) -> None:
    match event:
        case CircuitOpened(topic=topic, delay_s=delay_s, retry_at=retry_at):
            assert_type((topic, delay_s, retry_at), tuple[str, float, datetime])
        case DeadLettered():
            assert_type(event.retry_id, str)
        case _:
            pass


def listeners() -> tuple[Listener, ...]:
    return (listener, print, Tracing())


def errors() -> None:
    try:
        Strategy.load("strategies/short-outage.json")
    except StrategyError as error:
        assert_type(error.problems, tuple[str, ...])
    try:
        consumers()
    except (ExhaustedError, PermanentError) as error:
        place = (error.topic, error.partition, error.offset, error.failures)
        assert_type(place, tuple[str, int, int, int])
