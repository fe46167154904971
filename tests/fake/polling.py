"""The inside of one `poll` or `consume`: callbacks, messages, errors, time."""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING

from confluent_kafka import KafkaError, Message

from tests.fake.fetching import Fetch, Fetching
from tests.fake.membership import Change, Membership

if TYPE_CHECKING:
    from tests.fake.cluster import FakeKafka
    from tests.fake.consumer import FakeConsumer


_Taken = tuple[Message, Fetch | None]


class Polling:
    """The queue of one consumer: `answers` are callbacks that are due."""

    def __init__(
        self,
        fake: FakeKafka,
        consumer: FakeConsumer,
        fetching: Fetching,
        membership: Membership,
        max_poll_s: float,
    ) -> None:
        self.answers: deque[Callable[[], object]] = deque()
        self._fake = fake
        self._consumer = consumer
        self._fetching = fetching
        self._membership = membership
        self._max_poll_s = max_poll_s
        self._errors: deque[Message] = deque()
        self._raised: list[BaseException] = []
        self._polled_at_s: float | None = None

    def collect(self, count: int, timeout: float | None) -> list[Message]:
        clock = self._fake.clock
        deadline_s = _deadline_s(clock.now_s(), timeout)
        self._leave_if_too_late()
        if self._fake.faults.brokers_down and self._fake.faults.errors_per_poll:
            self._complain(self._fake.faults.errors_per_poll)
        taken: list[_Taken] = []
        while True:
            clock.run_due()
            self._serve_and_take(count, taken)
            if len(taken) >= count or clock.now_s() >= deadline_s:
                break
            clock.wait(min(deadline_s, self._fetching.ready_at_s() or math.inf))
        self._polled_at_s = clock.now_s()
        self._fake.note_poll(progress=bool(taken))
        injected = self._fake.faults.takes_poll_error()
        if injected is not None:
            self._raised.append(injected)
        # Only now, at the end of the call: what it had taken is gone with it (measured).
        self.raise_what_callbacks_left()
        return [message for message, _ in taken]

    def _serve_and_take(self, count: int, taken: list[_Taken]) -> None:
        """Callbacks and messages in turn, until there is nothing or `count` is reached."""
        while len(taken) < count:
            if self._serve() and not self._fake.faults.outdated_stay:
                self._drop_outdated(taken)
            message = self._next()
            changes = self._membership.changes
            if message is not None:
                taken.append((message, self._fetch_of(message)))
                if changes:
                    changes[0].after -= 1
            elif changes and changes[0].after > 0:
                changes[0].after = 0
            else:
                return

    def _next(self) -> Message | None:
        if self._errors:
            return self._errors.popleft()
        if self._consumer.sees_no_broker:
            return None
        return self._fetching.take()

    def _note(self, call: str, arguments: object) -> None:
        self._fake.note(self._consumer.name, call, arguments)

    def _complain(self, times: int) -> None:
        """The brokers are gone: `error_cb` learns of each attempt to connect."""
        for number in range(times):
            code = (KafkaError._TRANSPORT, KafkaError._ALL_BROKERS_DOWN)[number % 2]
            self._consumer.report(KafkaError(code, "1/1 brokers are down"))

    def fail(self, error: KafkaError) -> None:
        """The next call returns this error as a message."""
        self._errors.append(Message(value=error.str().encode(), error=error))

    def answer(self) -> None:
        """Call back what waits, rebalances excepted."""
        while self.answers:
            self.guard(self.answers.popleft())

    def raise_what_callbacks_left(self) -> None:
        """The first exception; the others are forgotten, as confluent_kafka does."""
        if self._raised:
            first = self._raised[0]
            self._raised.clear()
            raise first

    def _serve(self) -> bool:
        """Whether there was a rebalance."""
        changes = self._membership.changes
        rebalanced = False
        while self.answers or (changes and self._may_serve(changes[0])):
            self._fake.note_poll(progress=True)
            if self.answers:
                self.guard(self.answers.popleft())
            else:
                rebalanced = True
                change = changes.popleft()
                self._note(f"on_{change.callback}", change.partitions)
                self.guard(partial(self._membership.serve, change, self._consumer))

        return rebalanced

    def _drop_outdated(self, taken: list[_Taken]) -> None:
        """librdkafka takes back what the same call took before a rebalance (measured)."""
        taken[:] = [one for one in taken if one[1] is self._fetch_of(one[0])]

    def _fetch_of(self, message: Message) -> Fetch | None:
        topic, partition = message.topic(), message.partition()
        if topic is None or partition is None:
            return None
        return self._fetching.assigned.get((topic, partition))

    def _may_serve(self, change: Change) -> bool:
        if change.after > 0:
            return False
        # The group gives nothing away that another living member still has.
        return change.kind != "assign" or self._fake.is_free(change.partitions, self._consumer)

    def guard(self, callback: Callable[[], object]) -> None:
        try:
            callback()
        except BaseException as error:  # noqa: BLE001  (raised when the call ends, as confluent does)
            self._raised.append(error)

    def _leave_if_too_late(self) -> None:
        """`max.poll.interval.ms` has passed: the broker has thrown this member out. It rejoins."""
        if self._polled_at_s is None or not self._fetching.assigned:
            return
        late_s = self._fake.clock.now_s() - self._polled_at_s - self._max_poll_s
        if late_s <= 0:
            return
        text = f"Application maximum poll interval exceeded by {late_s * 1000:.0f}ms"
        self.fail(KafkaError(KafkaError._MAX_POLL_EXCEEDED, text))
        self._note("kicked", late_s)
        self._fake.throw_out(self._consumer)


def _deadline_s(now_s: float, timeout: float | None) -> float:
    if not timeout:
        return math.inf if timeout is None else now_s
    if timeout < 0 or not math.isfinite(timeout):
        return math.inf
    # Truncated to milliseconds: a poll(0.0005) spins in librdkafka, and so it does here.
    return now_s + int(timeout * 1000) / 1000
