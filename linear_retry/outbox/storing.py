"""Writes to the store what cannot be sent, again and again until the store takes it."""

import time
from collections import deque
from collections.abc import Callable, Iterable, Sequence, Set
from itertools import islice, takewhile

from linear_retry.errors import LinearRetryError, StoreError
from linear_retry.kafka.producers.direct import Report, Unsent
from linear_retry.log.lines import log_messages_lost, log_outbox_trouble
from linear_retry.outbox.held_lanes import Lane
from linear_retry.outbox.message import OutboxMessage, Recover, message_of
from linear_retry.outbox.sending import lane_of
from linear_retry.retry.callables import check_result
from linear_retry.store import messages
from linear_retry.store.database import Database
from linear_retry.store.sender import identity

_PART = 1_000
_PART_BYTES = 16 * 1024 * 1024
_AGAIN_S = 0.5
LOCK_MS = 500
"""The longest that a statement waits for a lock: what waits behind it has no other thread."""
_LOG_EVERY_S = 60.0


class Storing:
    """What waits to be stored, in order: each message, until the store has it or it is given up.

    A failed write says little of what comes next: a deadlock, a full disk and a restart pass. So
    everything is kept and tried again, and a message is given up only once it was tried itself, has
    waited for `timeout_s`, and nothing at all was written for as long. Belongs to one thread.
    """

    def __init__(
        self,
        database: Database,
        reports: deque[Report],
        *,
        timeout_s: float,
        recover: Recover | None,
        lanes: Set[Lane] = frozenset(),
        now_s: Callable[[], float] = time.monotonic,
    ) -> None:
        """`reports` takes what callers are to be told; `recover` is called with what is lost."""
        self.lanes = set(lanes)
        """Those of which the store may have messages; corrected by those who read it."""
        self.stored = self.lost = 0
        """How many messages were stored, and how many could not be."""
        self.trouble = ""
        """Why the store takes nothing; empty again once it has taken something."""
        self._database, self._reports = database, reports
        self._timeout_s, self._recover, self._now_s = timeout_s, recover, now_s
        self._waiting: deque[tuple[float, Unsent]] = deque()
        self._since_s: dict[bytes, float] = {}
        self._size = _PART
        self._is_reached = False
        self._failing_since_s: float | None = None
        self._again_at_s = 0.0
        self._last_due_ms = 0
        self._untold, self._lost_for, self._tell_at_s = 0, "", 0.0

    def __len__(self) -> int:
        """The number of messages that wait."""
        return len(self._waiting)

    def take(self, unsent: Iterable[Unsent]) -> None:
        """Lets these wait, behind the others."""
        now_s = self._now_s()
        self._waiting.extend((self._since_s.pop(_id_of(each), now_s), each) for each in unsent)

    def topic_to_send(self) -> str | None:
        """Returns the topic of the oldest that has no predecessor in the store; None without."""
        lanes = (lane_of(unsent) for _, unsent in self._waiting)
        return next((lane[0] for lane in lanes if lane not in self.lanes), None)

    def withdraw(self) -> list[Unsent]:
        """Returns all that waits, in order. What comes back has waited since it first came."""
        old_s = self._now_s() - 2 * self._timeout_s  # Kafka has taken what did not come back
        self._since_s = {
            each: since_s for each, since_s in self._since_s.items() if since_s > old_s
        }
        self._since_s |= {_id_of(unsent): since_s for since_s, unsent in self._waiting}
        found = [unsent for _, unsent in self._waiting]
        self._waiting.clear()
        return found

    def step(self) -> int:
        """Writes some of what waits; returns how many wait no more, stored or given up.

        That is 0 while nothing waits, and after a failure, until the next attempt is due.
        """
        self._log_losses(self._tell_at_s)
        if self._now_s() < self._again_at_s or not (self._waiting or self.trouble):
            return 0
        part = self._part()
        try:
            self._write([message_of(each) for each in part])
        except Exception as error:  # noqa: BLE001  (whatever it is: they are not stored)
            if not self._is_halved(part, error):
                return self._failed(part, error)
        else:
            return self._succeeded(part)
        return self.step()  # not above: the next error would hold on to this one

    def _succeeded(self, part: Sequence[Unsent]) -> int:
        self.trouble, self._failing_since_s = "", None
        self._since_s.clear()
        self.stored += len(part)
        self._reports.extend(Report(each) for each in part if each[-1] is not None)
        return self._settled(len(part))

    def _part(self) -> list[Unsent]:
        """What is written at once: no more than any server takes in one statement."""
        part: list[Unsent] = []
        left_bytes = _PART_BYTES
        for _, unsent in islice(self._waiting, self._size):
            left_bytes -= _size_bytes(unsent)
            if left_bytes < 0 and part:
                break
            part.append(unsent)
        return part

    def _write(self, some: Sequence[OutboxMessage]) -> None:
        self._is_reached = False
        with self._database.begin() as connection:
            self._is_reached = True
            # Each part has an attempt of its own: a locked table would cost a minute for each.
            self._database.limit_locks(connection, LOCK_MS)
            # Never back, whatever the clock does: it would change the order.
            due_ms = max(self._database.now_ms(connection), self._last_due_ms)
            due = [each.due(due_ms) for each in some]
            if due:
                messages.add(self._database, connection, due)
            else:  # only a write shows that a full disk has room again
                identity.write(self._database, connection, "outbox-written", f"{due_ms}")
            # Before the commit: one that fails may have stored them.
            self.lanes |= {(each.destination, each.slot) for each in due}
        self._last_due_ms = due_ms

    def _is_halved(self, part: Sequence[Unsent], error: Exception) -> bool:
        """Whether less is to be written at once: the neighbours of one must not fail with it."""
        if len(part) < 2 or not messages.concerns_one(error):
            return False
        self._size = len(part) // 2
        return True

    def _failed(self, part: Sequence[Unsent], error: Exception) -> int:
        now_s, text = self._now_s(), f"{type(error).__name__}: {error}"
        if part and messages.concerns_one(error):
            return self._give_up(part, error, text)
        if not self.trouble:
            log_outbox_trouble(str(self._database), text)
        self.trouble = text
        if self._failing_since_s is None:
            self._failing_since_s = now_s
        before_s = now_s - self._timeout_s
        if self._failing_since_s <= before_s:
            # A store that was not even reached was tried for all of them.
            tried = islice(self._waiting, len(part) if self._is_reached else None)
            lost = [unsent for _, unsent in takewhile(lambda each: each[0] <= before_s, tried)]
            if lost:
                return self._give_up(lost, error, text)
        self._again_at_s = now_s + _AGAIN_S
        return 0

    def _settled(self, count: int) -> int:
        for _ in range(count):
            self._waiting.popleft()
        self._size = min(_PART, 2 * self._size)
        return count

    def _give_up(self, lost: Sequence[Unsent], error: Exception, text: str) -> int:
        """Tells of messages that are neither sent nor stored: each with an error of its own."""
        self.lost += len(lost)
        self._untold, self._lost_for = self._untold + len(lost), text
        self._log_losses(self._tell_at_s)
        kind = type(error) if isinstance(error, LinearRetryError) else StoreError
        told = str(error) if isinstance(error, LinearRetryError) else f"{self._database}: {text}"
        for unsent in lost:
            own = error if messages.concerns_one(error) else kind(told)
            if unsent[-1] is not None:
                self._reports.append(Report(unsent, own))
            if self._recover is not None:
                self._call_recover(self._recover, message_of(unsent), own)
        return self._settled(len(lost))

    def end(self) -> None:
        """Logs what has not been logged yet."""
        self._log_losses()

    def _log_losses(self, at_s: float = 0.0) -> None:
        """Logs how many were lost since the last line, from `at_s` on: one for each is a flood."""
        now_s = self._now_s()
        if self._untold and now_s >= at_s:
            log_messages_lost(str(self._database), self._untold, self._lost_for)
            self._untold, self._tell_at_s = 0, now_s + _LOG_EVERY_S

    def _call_recover(self, recover: Recover, message: OutboxMessage, error: Exception) -> None:
        try:
            check_result(recover(message, error))
        # `sys.exit` too, which ends no program here: the next message needs this thread.
        except BaseException as raised:  # noqa: BLE001
            reason = f"recover raised {type(raised).__name__}: {raised}"
            log_messages_lost(message.topic, 1, f"{message.message_id}: {reason}")


def _id_of(unsent: Unsent) -> bytes:
    *_, message_id, _, _ = unsent
    return message_id


def _size_bytes(unsent: Unsent) -> int:
    """The size of a message's contents, about."""
    _, value, key, _, _, headers, *_ = unsent
    return sum(len(each or b"") for each in (value, key, *(content for _, content in headers)))
