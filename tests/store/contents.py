"""Messages and dead letters for tests, with defaults for what a test is not about."""

from dataclasses import replace
from typing import Any

from linear_retry.store.records import NewDeadLetter, NewMessage

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
_DEAD_LETTER = NewDeadLetter(
    service="scheduler",
    destination="orders",
    partition=0,
    key=b"key",
    value=b"value",
    headers=(("trace", b"1"),),
    timestamp_ms=1_700_000_000_000,
    retry_id="billing/orders/0/1",
    group_id="billing",
    origin="billing.scheduled[0]@1",
    reason="too-large",
    error="orders[0] refuses a message of 2 MB",
)


def new_message(**changes: Any) -> NewMessage:
    """A message that is due, but for these changes."""
    return replace(_MESSAGE, **changes)


def new_dead_letter(**changes: Any) -> NewDeadLetter:
    """A dead letter that can be forwarded, but for these changes."""
    return replace(_DEAD_LETTER, **changes)
