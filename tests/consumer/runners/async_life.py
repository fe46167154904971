"""A consumer on the fake Kafka whose handler is awaited, and what it did, watched."""

import asyncio
import threading
from collections.abc import Awaitable, Callable, Coroutine
from typing import Any, TypeVar

from linear_retry.consumer.runners.async_hand_over import AsyncHandler
from linear_retry.events import Event
from linear_retry.kafka import Message
from linear_retry.scope import Partition
from linear_retry.testing import AttemptFinished, AttemptStarted, EventLog
from tests.consumer.group import GROUP, LETTERS, TOPIC, consumer_on
from tests.fake.cluster import FakeKafka
from tests.patience import PATIENCE_S
from tests.testing.violations import violations

_T = TypeVar("_T")
_E = TypeVar("_E", bound=Event)

NAME = "one"
Act = Callable[[Message], Awaitable[object]]


def awaiting(main: Coroutine[Any, Any, _T]) -> _T:
    """What `asyncio.run` gives; no thread of ours, and no task, outlives it."""
    result = asyncio.run(main)
    assert [] == threads()
    return result


def threads() -> list[threading.Thread]:
    """Those of `run_async` that live."""
    return [one for one in threading.enumerate() if one.name == "linear_retry run_async"]


class Life:
    """One consumer, on `fake`. `options` are `LinearConsumer`'s."""

    def __init__(self, fake: FakeKafka, **options: Any) -> None:
        self.fake = fake
        self.witness = EventLog(fake.clock.now_s)
        self.events: list[Event] = []
        listeners = [self.witness.listener(NAME), self.events.append, *options.pop("listeners", ())]
        self.consumer = consumer_on(fake, listeners=listeners, **options)

    def watched(self, act: Act) -> Act:
        """`act`, whose beginning and end are written down."""
        return self.witness.async_handler(NAME, act)

    def watched_plain(self, act: Callable[[Message], object]) -> Callable[[Message], object]:
        """`act`, a handler of `run`, watched."""
        return self.witness.handler(NAME, act)

    async def run(self, act: Act) -> None:
        """`run_async`, watched."""
        await self.consumer.run_async(self.watched(act))

    def stopping_after(self, count: int, act: Act | None = None) -> AsyncHandler:
        """Asks for a stop in the attempt of this number, 1-based."""

        async def handle(message: Message) -> None:
            if len(self.begun) == count:
                self.consumer.stop()
            if act is not None:
                await act(message)

        return handle

    @property
    def begun(self) -> list[tuple[int, int]]:
        """Partition and offset of each attempt."""
        return [
            entry.place[1:] for entry in self.witness.entries if isinstance(entry, AttemptStarted)
        ]

    @property
    def done(self) -> int:
        """How many attempts returned."""
        return sum(
            isinstance(one, AttemptFinished) and one.outcome == "done"
            for one in self.witness.entries
        )

    @property
    def committed(self) -> int:
        """How many messages, of all partitions; they begin at 0."""
        return sum(self.fake.group(GROUP).values())

    @property
    def letters(self) -> int:
        """How many dead letters there are."""
        logs = self.fake.topics[LETTERS].partitions
        return sum(log.end - log.low for log in logs)

    @property
    def closed(self) -> bool:
        """Whether every client that was made has been closed."""
        return all(consumer.closed for consumer in self.fake.consumers)

    def emitted(self, kind: type[_E]) -> list[_E]:
        """The events of this kind."""
        return [event for event in self.events if isinstance(event, kind)]

    def violations(self, *, finished: bool = False) -> list[str]:
        visible: dict[Partition, range] = {
            (TOPIC, number): range(log.low, log.end)
            for number, log in enumerate(self.fake.topics[TOPIC].partitions)
        }
        return violations(
            self.witness.entries,
            visible,
            committed=self.fake.group(GROUP),
            strategy_length=2,
            finished=finished,
        )


def in_loop(call: Callable[[], object]) -> Callable[[], None]:
    """For the owner thread: call it in the present loop, and wait for what it sets going there."""
    loop = asyncio.get_running_loop()

    def there() -> None:
        called = threading.Event()

        def both() -> None:
            call()
            loop.call_soon(called.set)  # behind the next step of a task that was cancelled

        loop.call_soon_threadsafe(both)
        assert called.wait(PATIENCE_S)

    return there


def cancelling() -> Callable[[], None]:
    """For the owner thread: cancel the task that is the current one now."""
    task = asyncio.current_task()
    assert task is not None
    return in_loop(task.cancel)


async def forever(_: object = None) -> None:
    """Until cancelled."""
    await asyncio.get_running_loop().create_future()


async def succeed(_: object) -> None:
    """As a handler that has to wait for nothing."""
    await asyncio.sleep(0)
