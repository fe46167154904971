"""Sends what an outbox has stored, from a thread of the outbox's process."""

import threading
from collections.abc import Callable

from linear_retry.errors import ConfigurationError, StoreVersionError
from linear_retry.log.lines import log_outbox_sender_ended
from linear_retry.outbox.outbox_sender import OutboxSender

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
