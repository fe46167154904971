"""Warns of messages that their topics may remove before they are handled."""

import math
from collections.abc import Callable, Sequence
from concurrent.futures import Future

from linear_retry.consumer.settings.line import is_pattern
from linear_retry.events import Event, HeldMessageAtRisk, RetentionTooShort, WaitingBehind
from linear_retry.kafka import Message
from linear_retry.kafka.consumer.messages import timestamp_ms_of
from linear_retry.kafka.topics.admin import Admin
from linear_retry.retry.circuits import Circuits
from linear_retry.retry.clock import Clock
from linear_retry.scope import Partition, Scope

_LOOK_EVERY_S = 60.0
_SAFE_SHARE = 0.8


class RetentionCheck:
    """Warns if the strategy waits longer than a source keeps its messages.

    Best effort: asked at the start, answered while the loop runs, never waited for.
    """

    def __init__(self, admin: Admin, total_s: float, emit: Callable[[Event], None]) -> None:
        self._admin = admin
        self._emit = emit
        self._total_s = total_s
        self._asked: dict[str, Future[int]] = {}
        self.due_at_s = math.inf

    def ask(self, topics: Sequence[str]) -> None:
        """Asks for the retention, unless the strategy never waits."""
        if self._total_s > 0:
            named = [topic for topic in topics if not is_pattern(topic)]
            self._asked = {topic: self._admin.ask_retention_ms(topic) for topic in named}
            self.due_at_s = -math.inf

    def tick(self) -> None:
        """Emits `RetentionTooShort` for the answers that arrived since the last call."""
        for topic in [name for name, answer in self._asked.items() if answer.done()]:
            answer = self._asked.pop(topic)
            if answer.exception() is None and 0 <= answer.result() < self._total_s * 1000:
                self._emit(RetentionTooShort(topic, answer.result(), self._total_s))
        if not self._asked:
            self.due_at_s = math.inf


class HeldMessages:
    """Looks each minute at what is held: how many messages wait behind it, and its retention.

    Its age is that of its timestamp, and `retention.ms` is asked for each time, as it may be raised
    meanwhile. `retention.bytes` may remove it earlier.
    """

    def __init__(
        self,
        circuits: Circuits[Message],
        count_behind: Callable[[Scope], int],
        admin: Admin,
        clock: Clock,
        emit: Callable[[Event], None],
    ) -> None:
        """`count_behind` says how many messages wait behind the held one of a key."""
        self._circuits = circuits
        self._count_behind = count_behind
        self._admin = admin
        self._clock = clock
        self._emit = emit
        self._asked: dict[str, Future[int]] = {}
        self._told: set[tuple[Partition, int]] = set()
        self._behind: dict[tuple[Partition, int], int] = {}
        self._look_at_s = 0.0

    @property
    def due_at_s(self) -> float:
        return math.inf if self._circuits.all_closed else self._look_at_s

    def tick(self) -> None:
        """Emits `WaitingBehind` for each key of which more or fewer messages wait by now.

        And `HeldMessageAtRisk`, once for each, by the answers to what was asked before.
        """
        self._look_at_s = self._clock.now_s() + _LOOK_EVERY_S
        held = {
            (circuit.held.partition, circuit.held.offset): (scope, circuit.held)
            for scope, circuit in self._circuits
            if circuit.held is not None
        }
        self._told &= held.keys()
        before, self._behind = self._behind, {}
        for place, (scope, one) in held.items():
            self._behind[place] = behind = self._count_behind(scope)
            if behind != before.get(place, 0):
                self._emit(WaitingBehind(scope, *one.partition, one.offset, behind))
        for place, (scope, one) in held.items():
            retention_ms = self._retention_ms(one.partition[0])
            written_ms = timestamp_ms_of(one.message)
            if retention_ms is None or written_ms is None or place in self._told:
                continue
            age_s = (self._clock.utc_ms() - written_ms) / 1000
            if age_s * 1000 >= _SAFE_SHARE * retention_ms:
                self._told.add(place)
                at_risk = HeldMessageAtRisk(scope, *one.partition, one.offset, age_s, retention_ms)
                self._emit(at_risk)
        topics = {one.partition[0] for _, one in held.values()}
        self._asked = {topic: self._admin.ask_retention_ms(topic) for topic in sorted(topics)}

    def _retention_ms(self, topic: str) -> int | None:
        """How long the topic keeps messages, as far as it is known; None also for ever."""
        answer = self._asked.get(topic)
        if answer is None or not answer.done() or answer.exception() is not None:
            return None
        return answer.result() if answer.result() >= 0 else None
