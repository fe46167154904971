"""Sends what an outbox has stored, from a thread of the outbox's process."""

import threading

from linear_retry.kafka.consumer.settings import Config, connection
from linear_retry.log.lines import log_outbox_sender_ended
from linear_retry.store.database import Database
from linear_retry.store.sender.sender import Sender
from linear_retry.strategy.strategy import Strategy


class SenderThread:
    """A thread with a `Sender` of its own; other processes may send from the same store."""

    def __init__(self, database: Database, config: Config, strategy: Strategy) -> None:
        self._database = database
        self._sender = outbox_sender(database, config, strategy)
        self._stop = threading.Event()
        self._thread = threading.Thread(
            target=self._run, name="linear_retry outbox sender", daemon=True
        )

    def start(self) -> None:
        """Starts the thread."""
        self._thread.start()

    def stop(self) -> None:
        """Ends the thread after its batch; what is left stays in the store."""
        self._stop.set()
        self._thread.join()

    def _run(self) -> None:
        try:
            self._sender.run(self._stop)
        except Exception as error:  # noqa: BLE001  (what is stored stays stored; nothing sends it)
            log_outbox_sender_ended(str(self._database), f"{type(error).__name__}: {error}")


def outbox_sender(database: Database, config: Config, strategy: Strategy) -> Sender:
    """Returns the sender of an outbox's messages: one that is refused waits as `strategy` says."""
    return Sender(database, connection(config), "outbox", delays=strategy.delay_s)
