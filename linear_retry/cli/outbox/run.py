"""Runs the sender of the outbox's messages, with its log on stderr."""

import signal
from collections.abc import Mapping
from threading import Event
from typing import Any

from linear_retry.cli.output.log import log_to_stderr
from linear_retry.outbox.sender_thread import outbox_sender
from linear_retry.store.database import Database
from linear_retry.strategy.strategy import Strategy


def run(
    database: Database, config: Mapping[str, Any], strategy: Strategy, *, as_json: bool
) -> None:
    """Runs it until a signal."""
    stop = Event()
    for number in (signal.SIGINT, signal.SIGTERM):
        # A handler that raised would end it within a batch, which would be sent again.
        signal.signal(number, lambda *_: stop.set())
    log_to_stderr(as_json=as_json)
    outbox_sender(database, config, strategy).run(stop)
