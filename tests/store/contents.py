"""Messages and dead letters for tests, with defaults for what a test is not about."""

from dataclasses import replace
from typing import Any

from linear_retry.store.records import NewMessage

_MESSAGE = NewMessage(
    service="scheduler",
    destination="orders",
    slot="0",
    due_ms=0,
    key=b"key",
    value=b"value",
    headers=(("trace", b"1"),),
    timestamp_ms=1_700_000_000_000,
    retry_id="billing/orders/0/1",
    group_id="billing",
    origin="billing.scheduled[0]@1",
)


def new_message(**changes: Any) -> NewMessage:
    """A message that is due, but for these changes."""
    return replace(_MESSAGE, **changes)
