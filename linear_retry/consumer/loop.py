"""Read, attempt, decide, apply: the one way that every message goes."""

from __future__ import annotations

import inspect
import math
from collections.abc import Callable
from dataclasses import dataclass
from operator import length_hint
from typing import TypeAlias

from linear_retry import events
from linear_retry.consumer.applying import Applying
from linear_retry.consumer.circuits import Held
from linear_retry.consumer.gate import Gate
from linear_retry.consumer.overruns import Overruns
from linear_retry.consumer.parts import Parts
from linear_retry.consumer.reading import partition_of
from linear_retry.consumer.revival import Revival
from linear_retry.consumer.startup import RetentionCheck
from linear_retry.consumer.steering import Steering
from linear_retry.errors import UsageError
from linear_retry.kafka import Message
from linear_retry.kafka.messages import foreign_group, have_no_headers
from linear_retry.scope import Partition, Scope

Handler: TypeAlias = Callable[[Message], object]


@dataclass(slots=True)
class StopFlag:
    """Set by any thread, or a signal handler, once and for all; the loop looks at it.

    `poll_by_s` is when the loop has to stop handing over and poll: in here, so that the one look
    at the clock after each message sees a stop too.
    """

    asked: bool = False
    poll_by_s: float = -math.inf

    def ask(self) -> None:
        """For any thread."""
        self.asked = True
        self.poll_by_s = -math.inf

    def allow_until(self, poll_by_s: float) -> None:
        """For the loop. A stop that is asked for meanwhile is not overwritten."""
        self.poll_by_s = poll_by_s
        if self.asked:
            self.poll_by_s = -math.inf


class _NeverAwaitedError(BaseException):
    """No `Exception`: the handler has not failed, it has not run, and nothing is decided of it."""

    def __init__(self, handler: object) -> None:
        super().__init__(
            f"handler={handler!r} returned an awaitable, which nobody awaits: the message would "
            "count as done without having been handled; give a plain function"
        )


class Loop:
    """Joins the owners. Called by one thread."""

    def __init__(
        self,
        parts: Parts,
        steering: Steering,
        gate: Gate,
        revival: Revival,
        applying: Applying,
        retention: RetentionCheck,
        stop: StopFlag,
    ) -> None:
        self._parts = parts
        self._steering = steering
        self._gate = gate
        self._revival = revival
        self._applying = applying
        self._retention = retention
        self._overruns = Overruns()
        self._first = True
        self._stop = stop

    def run(self, handler: Handler) -> None:
        """Until asked to stop. Raises what cannot be mended; nothing unhandled is committed."""
        try:
            while not self._stop.asked:
                self.turn(handler)
        except _NeverAwaitedError as error:
            self._parts.reading.tear()
            raise UsageError(str(error)) from None
        except BaseException:
            # A message may be in nobody's hands now: whoever goes on reads from what is done.
            self._parts.reading.tear()
            raise

    def turn(self, handler: Handler) -> None:
        """Poll once, then attempt what is due. Every attempt has a poll before it."""
        parts = self._parts
        self._admit(lambda: parts.reading.read(self._timeout_s()))
        self._keep_house()
        for scope in parts.circuits.due(parts.clock.now_s()):
            if not self._stop.asked:  # a dependency that is down may take its time to say so
                self._probe(scope, handler)
        if parts.reading.ahead and not self._stop.asked:
            self._hand_over(handler)

    def read_along(self) -> None:
        """Poll while waiting for something else, so as to stay in the group."""
        self._admit(self._parts.reading.touch)
        self._applying.keep_house()

    # -- read ------------------------------------------------------------------------------

    def _admit(self, read: Callable[[], list[Message]]) -> None:
        """Before and after: what we had may be another's if we were away for too long.

        librdkafka tells of that some polls later only, so what is held must not be attempted yet.
        """
        parts, owned = self._parts, self._parts.ownership
        if parts.reading.overran(parts.clock.now_s()):
            self._steering.disown(owned.partitions, "no poll for too long")
        if parts.reading.torn:
            self._steering.reposition()
        epoch = owned.epoch
        arrivals = read()
        if parts.reading.overslept:
            before = [key for key in owned.partitions if (owned.epoch_of(key) or 0) <= epoch]
            self._steering.disown(before, "the machine slept for too long")
        self._gate.admit(arrivals)

    # -- attempt ---------------------------------------------------------------------------

    def _hand_over(self, handler: Handler) -> None:
        """Message by message, until one fails, the time for a poll has come, or all are handled.

        A success has no bookkeeping of its own, this is the path where every 0.1 µs counts: what
        is done is noted once, at the end or at the failure. `finally`: also for what is no
        `Exception`, where the failed message stays, not counted.
        """
        reading, now_s, stop = self._parts.reading, self._parts.clock.now_s, self._stop
        ahead, failed = reading.ahead, None
        call = self._called(handler) if self._first or not have_no_headers(ahead) else handler
        stop.allow_until(min(reading.deadline_s, self._parts.circuits.next_retry_at_s()))
        begun_s = now_s()
        in_hand, coming = 1, iter(ahead)
        try:
            for message in coming:
                call(message)
                if now_s() >= stop.poll_by_s:
                    break
            in_hand = 0
        except Exception as error:  # noqa: BLE001  (the handler's call: whatever a user may raise)
            failed = error
        finally:
            # What was taken, but for the one that the handler did not return from.
            handled = len(ahead) - length_hint(coming) - in_hand
            overran = self._too_slow(message)
            if not overran:
                self._done(ahead[:handled])
                del ahead[:handled]
        if overran:
            return
        reading.note_speed(handled, now_s() - begun_s)
        if failed is not None:
            self._fail_first(failed)

    def _fail_first(self, error: Exception) -> None:
        message = self._parts.reading.ahead.pop(0)
        partition = partition_of(message)
        epoch = self._parts.ownership.epoch_of(partition) or 0
        self._applying.failed(Held(message, partition, message.offset() or 0, epoch), error)

    def _probe(self, scope: Scope, handler: Handler) -> None:
        """`retry_at` has come: the held message, and only it, is attempted, from memory."""
        if self._parts.circuits.get(scope) is None:
            return  # closed meanwhile: a rebalance ran while another scope's letter was awaited
        held = self._parts.circuits.half_open(scope).held
        if held is None:
            self._let_a_first_one_come(scope)
        elif held.letter is not None:
            self._applying.bury(held)
        else:
            self._attempt(held, handler)

    def _attempt(self, held: Held, handler: Handler) -> None:
        error: Exception | None = None
        try:
            self._called(handler)(held.message)
        except Exception as raised:  # noqa: BLE001  (the handler's call: whatever a user may raise)
            error = raised
        if self._too_slow(held.message):
            return
        if error is None:
            self._applying.finish(held, "recovered")
        else:
            self._applying.failed(held, error)

    def _let_a_first_one_come(self, scope: Scope) -> None:
        """The held message was revoked: the first one delivered will be the probe."""
        parts = self._parts
        if any(map(scope.covers, parts.ownership.partitions)):
            parts.reading.start_small()
            self._steering.release(scope)
        else:
            open_s = parts.circuits.close(scope, parts.clock.now_s())
            parts.emit(events.CircuitClosed(scope, "dropped", open_s))

    def _called(self, handler: Handler) -> Handler:
        """`handler`, minding replays; and once, at the first message, what it returns."""

        def call(message: Message) -> None:
            group_id = foreign_group(message, self._parts.settings.group_id)
            if group_id is not None:
                place = (*partition_of(message), message.offset() or 0)
                self._parts.emit(events.PassedOver(*place, retry_group_id=group_id))
                return
            returned = handler(message)
            if self._first and inspect.isawaitable(returned):
                raise _NeverAwaitedError(handler)
            self._first = False

        return call

    # -- what is done ----------------------------------------------------------------------

    def _done(self, messages: list[Message]) -> None:
        """Note the last of each partition. They come in runs, so most differ in nothing."""
        last: dict[Partition, int] = {}
        topic, number = None, None
        for message in reversed(messages):
            if message.partition() != number or message.topic() != topic:
                topic, number = partition_of(message)
                last.setdefault((topic, number), (message.offset() or 0) + 1)
        self._parts.offsets.done(last)

    def _too_slow(self, message: Message) -> bool:
        """Whether the group has given up on us meanwhile: then nothing is stored."""
        parts = self._parts
        now_s = parts.clock.now_s()
        if not parts.reading.overran(now_s):
            return False
        partition, offset = partition_of(message), message.offset() or 0
        took_s, limit_s = now_s - parts.reading.polled_at_s, parts.settings.max_poll_interval_s
        self._steering.disown(parts.ownership.partitions, "no poll for too long")
        count = self._overruns.count(partition, offset)
        parts.emit(events.HandlerTooSlow(*partition, offset, took_s, limit_s, count))
        self._overruns.raise_if_hopeless(partition, offset, took_s, limit_s)
        return True

    def _keep_house(self) -> None:
        parts = self._parts
        self._applying.keep_house()
        reclaimable = parts.ownership.reclaimable(parts.clock.now_s())
        if reclaimable:
            self._steering.reclaim(reclaimable)
        # With a full queue a partition may be silent for minutes, its messages behind the others';
        # begun anew, it would go to the end of that queue, again and again.
        if parts.reading.dry and not parts.ownership.undisturbed:
            self._revival.look()
        self._retention.look()

    def _timeout_s(self) -> float:
        """To the next deadline: no busy loop, no timer thread. The client bounds it to 1 s."""
        now_s = self._parts.clock.now_s()
        if self._parts.reading.torn or self._parts.circuits.due(now_s):
            return 0.0
        return self._parts.circuits.next_retry_at_s() - now_s
