"""The sender of what outboxes have stored."""

from threading import Event

from linear_retry.kafka.consumer.settings import Config, connection
from linear_retry.store.database import Database
from linear_retry.store.records import Service
from linear_retry.store.sender.progress import (
    LeasesTaken,
    MessageDied,
    Progress,
    Resumed,
    Sent,
    Waiting,
    log_progress,
)
from linear_retry.store.sender.sender import Sender
from linear_retry.strategy.strategy import Strategy


class OutboxSender:
    """Sends the messages of a store's outboxes; one that is refused waits as `strategy` says."""

    name: Service = "outbox"
    intake: None = None
    """It has none: the applications store what it sends."""

    def __init__(self, database: Database, config: Config, strategy: Strategy) -> None:
        self.sent = self.dead = 0
        """How many messages were sent, and how many became dead letters."""
        self.problem = "it has not begun"
        """Why nothing is sent now; empty while it works."""
        self._database, self._config, self._strategy = database, config, strategy

    def run(self, stop: Event) -> None:
        """Sends until `stop` is set, as `Sender.run`; it can be called again after an error."""
        config, delays = connection(self._config), self._strategy.delay_s
        Sender(self._database, config, self.name, delays=delays, listener=self._note).run(stop)

    def not_alive(self) -> str | None:
        """Returns None: `run` raises every error after which a restart helps."""
        return None

    def not_ready(self) -> str | None:
        """Returns why nothing is sent now, for a probe; None while it works."""
        return self.problem or None

    def _note(self, event: Progress) -> None:
        match event:
            case Sent(count=count):
                self.sent += count
                self.problem = ""
            case LeasesTaken() | Resumed():
                self.problem = ""
            case Waiting(away=away, error=error):
                self.problem = f"sending waits for the {away}: {error}"
            case MessageDied():
                self.dead += 1
            case _:
                pass
        log_progress(event)
