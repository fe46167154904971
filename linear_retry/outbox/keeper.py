"""The outbox's own thread: stores what cannot be sent, and sees when Kafka takes it again."""

import threading
import time
from collections.abc import Callable, Sequence, Set

from linear_retry.log.lines import log_direct_again, log_messages_stored, log_outbox_trouble
from linear_retry.outbox.held_lanes import Lane
from linear_retry.outbox.sending import Sending
from linear_retry.outbox.storing import LOCK_MS, Storing
from linear_retry.store import lanes
from linear_retry.store.database import Database
from linear_retry.store.listing import statistics
from linear_retry.store.listing.statistics import HeldLane

_TICK_S = 0.1
_SOON_S = 2.0
"""A lane whose oldest message is younger is nearly empty: what comes next for it waits in memory,
for as long at most. Otherwise a lane that always gets more would never leave the store.
"""
_ASK_S, _ANSWER_S = 1.0, 2.0


class Keeper:
    """Watches over a `Sending` from its own thread."""

    def __init__(
        self,
        sending: Sending,
        storing: Storing,
        database: Database,
        *,
        timeout_s: float,
        now_s: Callable[[], float] = time.monotonic,
    ) -> None:
        """`timeout_s`: the longest that a message waits for its acknowledgement."""
        self._sending = sending
        self._storing = storing
        self._database = database
        self._timeout_s, self._now_s = timeout_s, now_s
        self.held: Sequence[HeldLane] = ()
        """The lanes whose topic does not take their first message, from whatever process."""
        self._kept_since_s: dict[Lane, float] = {}
        self._ask_at_s = 0.0
        self._stopping = False
        self._is_logged = False
        self._trouble = ""
        self._thread = threading.Thread(target=self._run, name="linear_retry outbox", daemon=True)

    @property
    def trouble(self) -> str:
        """Why the store is not read or written; empty while it is, and where there is no need."""
        return self._storing.trouble or self._trouble

    def start(self) -> None:
        """Starts the thread."""
        self._thread.start()

    def stop(self) -> None:
        """Ends the thread, once all that cannot be sent is stored or given up."""
        self._stopping = True
        self._sending.wake.set()
        self._thread.join()

    def turn(self, *, is_last: bool = False) -> None:
        """Looks once; stores what there is to be stored, and with `is_last` all of it."""
        self._sending.look(self._timeout_s)
        nearly_empty: Set[Lane] = frozenset()
        try:
            # Nothing may be sent directly before what still has to be stored.
            if self._sending.holds_any and not self._storing:
                nearly_empty = self._settle()
        finally:  # a store that fails here fails there too, and callbacks get the error
            if self._sending.must_store:
                self._storing.take(self._sending.take(frozenset() if is_last else nearly_empty))
            self._store()
            if self._storing and self._storing.trouble and not is_last:
                self._send_unstored()

    def _run(self) -> None:
        while True:
            is_last = self._stopping
            self._guarded_turn(is_last=is_last)
            if is_last and not self._storing:
                self._storing.end()
                return
            self._sending.wake.wait(_TICK_S)
            self._sending.wake.clear()

    def _guarded_turn(self, *, is_last: bool) -> None:
        try:
            self.turn(is_last=is_last)
        except BaseException as error:  # noqa: BLE001  (without it nothing would be stored)
            trouble = f"{type(error).__name__}: {error}"
            if not self.trouble:
                log_outbox_trouble(str(self._database), trouble)
            self._trouble = trouble
        else:
            self._trouble = ""

    def _store(self) -> None:
        before = self._storing.stored
        while count := self._storing.step():
            self._sending.done(count)
        stored = self._storing.stored - before
        if stored and not self._is_logged:
            self._is_logged = True
            log_messages_stored(str(self._database), stored, self._sending.reason)

    def _send_unstored(self) -> None:
        """Sends directly what the store does not take, if Kafka is there again before it."""
        if self._now_s() < self._ask_at_s:
            return
        # If nothing may go, no message is moved: `produce` would wait meanwhile.
        topic = self._storing.topic_to_send()
        if topic is not None and self._sending.is_kafka_there(topic, _ANSWER_S):
            self._sending.put_back(self._storing.withdraw(), self._storing.lanes)
        self._ask_at_s = self._now_s() + _ASK_S

    def _settle(self) -> Set[Lane]:
        """Returns the lanes that the store has soon sent."""
        with self._database.reading() as connection:
            self._database.limit_locks(connection, LOCK_MS)
            waiting = lanes.waiting(connection, "outbox")
            held = statistics.held(connection, "outbox")
            now_ms = self._database.now_ms(connection)
        self.held = held
        self._storing.lanes = set(waiting)
        self._sending.settle(waiting.keys())
        if self._is_logged and not self._sending.holds_any:
            self._is_logged = False
            log_direct_again(str(self._database))
        # One that is not due yet was postponed, or the clock was set back: it may stay for long.
        soon_ms = round(_SOON_S * 1000)
        soon = {lane for lane, first_ms in waiting.items() if abs(now_ms - first_ms) < soon_ms}
        return self._kept(soon)

    def _kept(self, soon: Set[Lane]) -> Set[Lane]:
        """Returns those of which messages may wait in memory, each for a short time at most.

        By our own clock: whatever keeps a lane in the store, nothing waits for it unstored.
        """
        now_s = self._now_s()
        since_s = {lane: self._kept_since_s.get(lane, now_s) for lane in soon}
        kept = {lane for lane, since in since_s.items() if now_s - since < _SOON_S}
        # The others are forgotten: what they have now is stored, and the next may wait again.
        self._kept_since_s = {lane: since_s[lane] for lane in kept}
        return kept
