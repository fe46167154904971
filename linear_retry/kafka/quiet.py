"""Keeps librdkafka's own lines off stderr, and gives its errors as text."""

from __future__ import annotations

from contextlib import suppress
from typing import Any

from confluent_kafka import KafkaError, KafkaException


def close_quietly(handle: Any) -> None:
    """Close a consumer of which nobody wants to know any more: for a thread of its own."""
    with suppress(KafkaException):
        handle.close()


class _Nobody:
    """Takes what librdkafka would write. `log_level` 0 still lets its fatal errors through."""

    def log(self, *_: object) -> None:
        """All that matters is raised."""


QUIET: dict[str, Any] = {"log_level": 0, "logger": _Nobody(), "error_cb": lambda _: None}


def text_of(error: BaseException) -> str:
    """What librdkafka says of an error, whatever it raised."""
    first = error.args[0] if error.args else error
    return first.str() if isinstance(first, KafkaError) else str(first)
