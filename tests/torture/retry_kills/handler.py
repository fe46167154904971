"""A handler that needs no memory: what it does follows from the message, whoever is killed."""

from linear_retry.kafka import Message
from tests.scenarios.handlers import OutageError


def handle(message: Message) -> None:
    """Its value says how many steps it takes until its dependency is there."""
    step = int(dict(message.headers() or []).get("retry-step") or 0)
    if step < int(message.value() or b"0"):
        raise OutageError(f"step {step}")
