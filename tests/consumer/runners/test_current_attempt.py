"""What a handler is told of its attempt, however it is run."""

import asyncio
from collections.abc import Callable
from datetime import UTC, datetime
from typing import Any

import pytest

from linear_retry import (
    AttemptInfo,
    ByKey,
    LinearConsumer,
    RetryTopics,
    Strategy,
    UsageError,
    current_attempt,
    events,
    message_id,
)
from linear_retry.kafka import Message
from linear_retry.testing import EmbeddedKafka
from tests.consumer.group import OutageError, consumer_on
from tests.fake.cluster import FakeKafka

Told = list[tuple[Message, AttemptInfo]]

_COUNTED = [(1, 1.0, False), (2, 5.0, False), (3, None, True), (1, 1.0, False)]
"""Number, the wait after it and whether it is the last: of a message that fails thrice by the
strategy [1, 5], and of the next one."""


def _counted(told: Told) -> list[tuple[int, float | None, bool]]:
    return [(one.number, one.next_delay_s, one.is_last) for _, one in told]


class _Failing:
    """A handler whose first message fails for good, and that stops at the next one."""

    def __init__(self, consumer: LinearConsumer) -> None:
        self.consumer = consumer
        self.told: Told = []

    def handle(self, message: Message, info: AttemptInfo) -> None:
        self.told.append((message, info))
        if len(self.told) == len(_COUNTED):
            self.consumer.stop()
        else:
            raise OutageError

    def run(self) -> None:
        self.consumer.run(lambda message: self.handle(message, current_attempt()))

    def run_batches(self) -> None:
        self.consumer.run_batches(
            lambda messages: self.handle(messages[0], current_attempt()), max_messages=1
        )

    def run_async(self) -> None:
        async def handle(message: Message) -> None:
            # Also where the handler hands its work on, as both have a copy of its context.
            info = await asyncio.create_task(asyncio.to_thread(current_attempt))
            assert info.number == current_attempt().number
            self.handle(message, info)

        asyncio.run(self.consumer.run_async(handle))

    def own_loop(self) -> None:
        for attempt in self.consumer:
            with attempt as message:
                assert attempt.number == attempt.info.number
                self.handle(message, attempt.info)


_WAYS: list[Callable[[_Failing], None]] = [
    _Failing.run,
    _Failing.run_batches,
    _Failing.run_async,
    _Failing.own_loop,
]


@pytest.mark.parametrize("way", _WAYS, ids=lambda way: way.__name__)
def test_each_attempt_knows_its_number_and_what_follows(
    fake: FakeKafka, way: Callable[[_Failing], None]
) -> None:
    """And when the message failed first, and its id, which is that of `message_id`."""
    with consumer_on(fake) as consumer:
        failing = _Failing(consumer)
        way(failing)
    assert _COUNTED == _counted(failing.told)
    assert [message_id(message) for message, _ in failing.told] == [
        info.message_id for _, info in failing.told
    ]
    none, first, again, of_another = (info.first_failure for _, info in failing.told)
    assert none is of_another is None
    assert first == again
    assert datetime(2000, 1, 1, tzinfo=UTC) < (first or datetime.min.replace(tzinfo=UTC))
    with pytest.raises(UsageError, match="outside a handler"):
        current_attempt()


@pytest.mark.parametrize("is_async", [False, True])
def test_side_by_side_each_handler_is_told_of_its_own(*, is_async: bool) -> None:
    """In threads and in tasks, several of which are in a handler at once."""
    told: dict[int, list[int]] = {number: [] for number in range(4)}
    wanted = {number: [*range(1, number + 2)] for number in range(4)}

    def note(message: Message) -> None:
        info = current_attempt()
        assert message_id(message) == info.message_id
        fails_so_often = int(message.value() or b"")
        told[fails_so_often].append(info.number)
        if info.number <= fails_so_often:
            raise OutageError
        if told == wanted:
            consumer.stop()

    async def note_later(message: Message) -> None:
        await asyncio.sleep(0.001)
        note(message)

    with EmbeddedKafka() as kafka:
        for topic in ("orders", "orders.dlq"):
            kafka.create_topic(topic, 1)
        kafka.produce("orders", ["0", "1", "2", "3"])
        config = {"bootstrap.servers": kafka.bootstrap, "group.id": "billing"}
        with LinearConsumer(
            {**config, "auto.offset.reset": "earliest"},
            ["orders"],
            strategy=[0.01] * 9,
            transient=OutageError,
            dead_letters="orders.dlq",
            scope=ByKey(key=lambda message: message.value(), key_id="value"),
            concurrency=4,
        ) as consumer:
            if is_async:
                asyncio.run(consumer.run_async(note_later))
            else:
                consumer.run(note)
    assert wanted == told


def test_off_the_line_the_count_continues(fake: FakeKafka) -> None:
    """In a retry topic the failures in the line are among its own, and the next wait is that of the
    next topic; its id is the same."""
    told: list[AttemptInfo] = []
    retries = RetryTopics("orders.billing.retry", strategy=["5s", "30s"])
    for topic in retries.topics:
        fake.create_topic(topic, 2, {"message.timestamp.type": "LogAppendTime"})

    def run(**options: Any) -> None:
        """Until an attempt that is the last where it is made."""

        def fail(_: Message) -> None:
            told.append(current_attempt())
            raise OutageError

        def stop(event: events.Event) -> None:
            if isinstance(event, events.SentToRetry | events.DeadLettered):
                consumer.stop()

        with consumer_on(fake, listeners=[stop], **options) as consumer:
            consumer.run(fail)

    run(strategy=[1], on_exhausted=retries)
    run(strategy=[], topics=retries)
    run(strategy=[], topics=retries)
    assert [(1, 1.0), (2, 5.0), (3, 30.0), (4, None)] == [
        (each.number, each.next_delay_s) for each in told
    ]
    assert 1 == len({each.message_id for each in told})
    assert 1 == len({each.first_failure for each in told[1:]})


@pytest.mark.parametrize(
    ("strategy", "on_exhausted", "expected"),
    [
        (Strategy([1, 5]), "repeat", [1.0, 5.0, 5.0, 5.0]),
        (Strategy([1, 5], max_elapsed="5s"), "dead-letter", [1.0, None, 1.0, None]),
        (Strategy([]), "dead-letter", [None, None, None, None]),
    ],
)
def test_what_follows_is_what_was_chosen(
    fake: FakeKafka, strategy: Strategy, on_exhausted: str, expected: list[float | None]
) -> None:
    """One that is repeated has no last attempt, and one that may not last as long an early one."""
    found: list[float | None] = []

    def fail(_: Message) -> None:
        found.append(current_attempt().next_delay_s)
        if len(found) == len(expected):
            consumer.stop()
        raise OutageError

    with consumer_on(fake, strategy=strategy, on_exhausted=on_exhausted) as consumer:
        consumer.run(fail)
    assert expected == found
