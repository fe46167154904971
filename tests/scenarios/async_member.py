"""A consumer whose handler is awaited, watched."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any

from linear_retry import LinearConsumer
from linear_retry.kafka import Message
from tests.guarantees import Begun, Ended, Witness


class AsyncMember:
    """Writes down what its handler does."""

    def __init__(self, name: str, consumer: LinearConsumer, witness: Witness) -> None:
        """The consumer's listeners are to have that of the witness already."""
        self._name = name
        self._consumer = consumer
        self._witness = witness

    async def run(self, act: Callable[[Message], Awaitable[object]]) -> None:
        """`run_async`."""
        log, now_s, name = self._witness.log, self._witness.now_s, self._name

        async def handle(message: Message) -> None:
            place = (message.topic() or "", message.partition() or 0, message.offset() or 0)
            log.append(Begun(now_s(), name, place))
            how: Any = "interrupted"
            try:
                await act(message)
                how = "done"
            except Exception:
                how = "failed"
                raise
            finally:
                log.append(Ended(now_s(), name, place, how))

        await self._consumer.run_async(handle)
