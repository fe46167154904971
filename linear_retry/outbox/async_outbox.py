"""The outbox for asyncio: a message is awaited until it is durable."""

import asyncio
import threading
from types import TracebackType
from typing import Any, Self

from linear_retry.errors import BrokerError
from linear_retry.kafka.consumer.settings import Config
from linear_retry.log.repeating import Repeating
from linear_retry.outbox.message import Headers, OutboxMessage, Recover
from linear_retry.outbox.outbox import Outbox
from linear_retry.outbox.status import OutboxCounts, OutboxHealth
from linear_retry.store.records import OnRefused
from linear_retry.strategy.strategy import Strategy

_POLL_S = 0.1


class AsyncOutbox:
    """An `Outbox` whose `produce` returns a future: `await outbox.produce("orders", value)`.

    It is used as `async with AsyncOutbox(config) as outbox`, and belongs to the event loop that
    enters it.
    """

    def __init__(
        self,
        config: Config,
        *,
        store: str | None = None,
        schema: str | None = None,
        strategy: Strategy | None = None,
        on_refused: OnRefused = "hold",
        sender: bool = True,
        recover: Recover | None = None,
    ) -> None:
        """As `Outbox`, but connects to nothing before `async with`, which raises its errors."""
        self._config = config
        self._options: dict[str, Any] = {
            "store": store,
            "schema": schema,
            "strategy": strategy,
            "on_refused": on_refused,
            "sender": sender,
            "recover": recover,
        }
        self._reports = Repeating("reports", self._poll, again_s=_POLL_S)

    async def __aenter__(self) -> Self:
        self._loop = asyncio.get_running_loop()
        self._outbox = await asyncio.to_thread(Outbox, self._config, **self._options)
        self._reports.start()
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        await self.close()

    def produce(
        self,
        topic: str,
        value: bytes | str | None = None,
        key: bytes | str | None = None,
        *,
        headers: Headers = (),
        partition: int | None = None,
        timestamp: int | None = None,
        retry: bool = True,
    ) -> asyncio.Future[OutboxMessage]:
        """Sends a message, or stores it; await the future to know that it is durable.

        Messages are sent in the order of the calls, awaited or not. The future raises `BrokerError`
        where `on_delivery` would get Kafka's error, and the store's exception where it could not be
        stored. Arguments, and what is raised at once, are those of `Outbox.produce`.
        """
        durable: asyncio.Future[OutboxMessage] = self._loop.create_future()

        def on_delivery(error: Any, message: OutboxMessage) -> None:
            self._loop.call_soon_threadsafe(_settle, durable, error, message)

        self._outbox.produce(
            topic,
            value,
            key,
            headers=headers,
            partition=partition,
            timestamp=timestamp,
            retry=retry,
            on_delivery=on_delivery,
        )
        return durable

    async def add(
        self,
        transaction: Any,
        topic: str,
        value: bytes | str | None = None,
        key: bytes | str | None = None,
        *,
        headers: Headers = (),
        partition: int | None = None,
        timestamp: int | None = None,
    ) -> str:
        """Stores a message in an `AsyncConnection` or `AsyncSession` of SQLAlchemy.

        Else as `Outbox.add`.
        """
        # `run_sync` is of the loop's thread, which must not wait for another connection's locks.
        await asyncio.to_thread(self._outbox.prepare, topic, key, partition)
        message_id: str = await transaction.run_sync(
            self._outbox.add,
            topic,
            value,
            key,
            headers=headers,
            partition=partition,
            timestamp=timestamp,
        )
        return message_id

    async def flush(self, timeout_s: float | None = None) -> int:
        """Waits until every message is in Kafka or in the store; returns how many are in neither.

        As `Outbox.flush`.
        """
        return await asyncio.to_thread(self._outbox.flush, timeout_s)

    async def close(self, timeout_s: float | None = None) -> None:
        """Waits as `flush`; then stores what is not acknowledged. A second call does nothing."""
        try:
            await asyncio.to_thread(self._outbox.close, timeout_s)
        finally:
            self._reports.stop()

    @property
    def outbox(self) -> Outbox:
        """The outbox behind it, for metrics."""
        return self._outbox

    def health(self) -> OutboxHealth:
        """Returns its health, from memory."""
        return self._outbox.health()

    @property
    def counts(self) -> OutboxCounts:
        """The counts since it was created."""
        return self._outbox.counts

    def _poll(self, stop: threading.Event) -> None:
        while not stop.is_set():
            self._outbox.poll(_POLL_S)


def _settle(durable: asyncio.Future[OutboxMessage], error: Any, message: OutboxMessage) -> None:
    """Ends the future, unless it was cancelled."""
    if durable.done():
        return
    if error is None:
        durable.set_result(message)
    elif isinstance(error, BaseException):
        durable.set_exception(error)
    else:
        durable.set_exception(BrokerError(f"{message.topic}: {error.str()} ({error.name()})"))
