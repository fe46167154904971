"""The outbox's own thread: stores what cannot be sent, and sees when Kafka takes it again."""

import threading
from collections import deque
from collections.abc import Sequence, Set

from linear_retry.kafka.producers.direct import Report, Unsent
from linear_retry.log.lines import (
    log_direct_again,
    log_messages_lost,
    log_messages_stored,
    log_outbox_trouble,
)
from linear_retry.outbox.held_lanes import Lane
from linear_retry.outbox.message import OutboxMessage, Recover, message_of
from linear_retry.outbox.sending import Sending
from linear_retry.store import lanes, messages
from linear_retry.store.database import Database

_TICK_S = 0.1
_SOON_MS = 2_000
"""A lane whose oldest message is younger is nearly empty: what comes next for it waits in memory.

Otherwise a lane that always gets more would never leave the store.
"""


class Keeper:
    """Watches over a `Sending` from its own thread."""

    def __init__(
        self,
        sending: Sending,
        database: Database,
        reports: deque[Report],
        *,
        timeout_s: float,
        recover: Recover | None,
    ) -> None:
        """`timeout_s`: the longest that a message waits for its acknowledgement."""
        self._sending = sending
        self._database = database
        self._reports = reports
        self._timeout_s = timeout_s
        self._recover = recover
        self._stopping = False
        self._is_logged = False
        self.stored = self.lost = 0
        """How many messages were stored, and how many could not be."""
        self.trouble = ""
        """Why the store is not read or written; empty while it is, and where there is no need."""
        self._last_due_ms = 0
        self._thread = threading.Thread(target=self._run, name="linear_retry outbox", daemon=True)

    def start(self) -> None:
        """Starts the thread."""
        self._thread.start()

    def stop(self) -> None:
        """Ends the thread, once all that cannot be sent is stored."""
        self._stopping = True
        self._sending.wake.set()
        self._thread.join()

    def turn(self) -> None:
        """Looks once; stores what there is to be stored."""
        self._sending.look(self._timeout_s)
        nearly_empty: Set[Lane] = frozenset()
        try:
            if self._sending.holds_any:
                nearly_empty = self._settle()
        finally:  # a store that fails here fails there too, and callbacks get the error
            if self._sending.must_store:
                self._store(self._sending.take(nearly_empty))

    def _run(self) -> None:
        while True:
            is_last = self._stopping
            self._guarded_turn()
            if is_last:
                return
            self._sending.wake.wait(_TICK_S)
            self._sending.wake.clear()

    def _guarded_turn(self) -> None:
        try:
            self.turn()
        except Exception as error:  # noqa: BLE001  (without this thread nothing would be stored)
            trouble = f"{type(error).__name__}: {error}"
            if trouble != self.trouble:
                log_outbox_trouble(str(self._database), trouble)
            self.trouble = trouble
        else:
            self.trouble = ""

    def _store(self, unsent: Sequence[Unsent]) -> None:
        left = list(unsent)
        try:
            for some in messages.in_parts(unsent):
                self._write([message_of(each) for each in some])
                self.stored += len(some)
                self._reports.extend(Report(each) for each in some if each[-1] is not None)
                del left[: len(some)]
        except Exception as error:  # noqa: BLE001  (whatever it is: they are not stored)
            self._give_up(left, error)
        self._sending.done(len(unsent))
        stored = len(unsent) - len(left)
        if stored and not self._is_logged:
            self._is_logged = True
            log_messages_stored(str(self._database), stored, self._sending.reason)

    def _write(self, some: Sequence[OutboxMessage]) -> None:
        with self._database.begin() as connection:
            # Never back, whatever the clock does: it would change the order.
            due_ms = max(self._database.now_ms(connection), self._last_due_ms)
            messages.add(self._database, connection, [each.due(due_ms) for each in some])
        self._last_due_ms = due_ms

    def _give_up(self, lost: Sequence[Unsent], error: Exception) -> None:
        """Tells of messages that are neither sent nor stored."""
        self.lost += len(lost)
        log_messages_lost(str(self._database), len(lost), f"{type(error).__name__}: {error}")
        for unsent in lost:
            if unsent[-1] is not None:
                self._reports.append(Report(unsent, error))
            if self._recover is not None:
                self._call_recover(self._recover, message_of(unsent), error)

    def _call_recover(self, recover: Recover, message: OutboxMessage, error: Exception) -> None:
        try:
            recover(message, error)
        except Exception as raised:  # noqa: BLE001  (the caller's; the next message needs it too)
            reason = f"recover raised {type(raised).__name__}: {raised}"
            log_messages_lost(message.topic, 1, f"{message.retry_id}: {reason}")

    def _settle(self) -> Set[Lane]:
        """Returns the lanes that the store has soon sent."""
        with self._database.reading() as connection:
            waiting = lanes.waiting(connection, "outbox")
            now_ms = self._database.now_ms(connection)
        self._sending.settle(waiting.keys())
        if self._is_logged and not self._sending.holds_any:
            self._is_logged = False
            log_direct_again(str(self._database))
        return {lane for lane, first_ms in waiting.items() if now_ms - first_ms < _SOON_MS}
