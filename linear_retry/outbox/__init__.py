"""Produces messages that reach Kafka later where they cannot now, or with a database transaction.

`Outbox` sends as a producer does; what cannot be sent is stored, and sent from the store in order.
`AsyncOutbox` is the same for asyncio.
"""

try:
    from linear_retry.outbox.async_outbox import AsyncOutbox
    from linear_retry.outbox.message import OutboxMessage
    from linear_retry.outbox.outbox import Outbox
    from linear_retry.outbox.status import OutboxCounts, OutboxHealth
except ModuleNotFoundError as error:
    library, _, _ = (error.name or "").partition(".")
    raise ModuleNotFoundError(
        f"{library} is missing: pip install 'linear-retry[scheduler]'", name=library
    ) from None

__all__ = ["AsyncOutbox", "Outbox", "OutboxCounts", "OutboxHealth", "OutboxMessage"]
