"""Runs the sender of the outbox's messages, with its log on stderr."""

import signal

from linear_retry.cli.output.log import log_to_stderr
from linear_retry.cli.scheduler.http_options import HttpOptions
from linear_retry.consumer.runners.signals import SIGNALS, SignalEvent
from linear_retry.outbox.outbox_sender import OutboxSender
from linear_retry.store.database import Database


def run(database: Database, sender: OutboxSender, http: HttpOptions, *, as_json: bool) -> None:
    """Runs it until a signal."""
    stop = SignalEvent()
    for number in SIGNALS:
        # A handler that raised would end it within a batch, which would be sent again.
        signal.signal(number, lambda *_: stop.set())
    log_to_stderr(as_json=as_json)
    with http.serving_api(database, sender):
        sender.run(stop)
