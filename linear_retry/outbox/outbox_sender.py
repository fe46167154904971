"""The sender of what outboxes have stored, and the thread in which an outbox runs one."""

import threading
from collections.abc import Callable
from threading import Event
from typing import get_args

from linear_retry.errors import ConfigurationError, StoreVersionError
from linear_retry.kafka.consumer.settings import Config, connection
from linear_retry.log.lines import log_outbox_sender_ended
from linear_retry.store.database import Database
from linear_retry.store.records import OnRefused, Service
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
from linear_retry.store.sender.settlement import Delays
from linear_retry.strategy.strategy import Strategy


class OutboxSender:
    """Sends the messages of a store's outboxes; one that is refused waits as `strategy` says.

    With `on_refused="hold"` it waits for as long as it is refused, and its lane behind it: the last
    delay again and again. Raises `ConfigurationError` if the strategy has none to repeat.
    """

    name: Service = "outbox"
    intake: None = None
    """It has none: the applications store what it sends."""

    def __init__(
        self,
        database: Database,
        config: Config,
        strategy: Strategy,
        on_refused: OnRefused = "hold",
    ) -> None:
        self._delays = _delays(strategy, on_refused)
        self.sent = self.dead = 0
        """How many messages were sent, and how many became dead letters."""
        self.problem = "it has not begun"
        """Why nothing is sent now; empty while it works."""
        self._database, self._config, self._on_refused = database, config, on_refused

    def run(self, stop: Event) -> None:
        """Sends until `stop` is set, as `Sender.run`; it can be called again after an error."""
        sender = Sender(
            self._database,
            connection(self._config),
            self.name,
            delays=self._delays,
            on_refused=self._on_refused,
            listener=self._note,
        )
        sender.run(stop)

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


def _delays(strategy: Strategy, on_refused: OnRefused) -> Delays:
    if on_refused not in get_args(OnRefused):
        raise ConfigurationError(
            f"on_refused={on_refused!r}: must be one of {', '.join(get_args(OnRefused))}"
        )
    if on_refused == "dead-letter":
        return strategy.delay_s
    if not len(strategy):
        raise ConfigurationError(
            "on_refused='hold' repeats the last delay of the strategy, and it has none: give one, "
            "such as [3], or take on_refused='dead-letter'"
        )
    return lambda failures: strategy.delay_s(min(failures, len(strategy)))


_AGAIN_S = 2.0


class SenderThread:
    """A thread with a sender of its own; other processes may send from the same store.

    A sender that an error ends begins again: without it messages would only be stored.
    """

    def __init__(
        self, sender: OutboxSender, store: str, ended: Callable[[Exception], object]
    ) -> None:
        """`ended` is called, from the thread, with an error that no new sender can do without."""
        self._sender, self._store, self._ended = sender, store, ended
        self._error = ""
        self._stop = threading.Event()
        self._thread = threading.Thread(
            target=self._run, name="linear_retry outbox sender", daemon=True
        )

    @property
    def trouble(self) -> str:
        """The error that has ended the sender; empty if it works again."""
        return self._error if self._sender.problem else ""

    def start(self) -> None:
        """Starts the thread."""
        self._thread.start()

    def stop(self) -> None:
        """Ends the thread after its batch; what is left stays in the store."""
        self._stop.set()
        self._thread.join()

    def _run(self) -> None:
        while not self._stop.is_set():
            try:
                self._sender.run(self._stop)
            except BaseException as error:  # noqa: BLE001  (nothing else sends what is stored)
                # Tables that are missing, or of another version, may be there again soon.
                is_passing = isinstance(error, StoreVersionError)
                if isinstance(error, ConfigurationError) and not is_passing:
                    self._note(error, will_begin_again=False)
                    self._ended(error)
                    return
                self._note(error, will_begin_again=True)
                self._stop.wait(_AGAIN_S)

    def _note(self, error: BaseException, *, will_begin_again: bool) -> None:
        text = f"{type(error).__name__}: {error}"
        if text != self.trouble:
            log_outbox_sender_ended(self._store, text, will_begin_again=will_begin_again)
        self._error = self._sender.problem = text
