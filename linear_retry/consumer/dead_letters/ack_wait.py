"""Waits for the acknowledgement of a dead letter, while the member stays in its group."""

from __future__ import annotations

from collections.abc import Callable, Generator
from typing import Any, TypeAlias, TypeVar

from linear_retry.consumer.partitions.assignment import Assignment
from linear_retry.consumer.partitions.read_ahead import ReadAhead
from linear_retry.kafka.producers.transactional import Step, Unfinished
from linear_retry.retry.clock import Clock
from linear_retry.retry.held import Held

T = TypeVar("T")
Steps: TypeAlias = Generator[bool, None, T]
"""Of a delivery: where it yields, the loop polls the consumer, at once if that is True."""

STOP_GRACE_S = 1.0
_LONGEST_WAIT_S = 0.25  # a stop is heard between two calls into librdkafka, not inside one


class AckWait:
    """Waits for what becomes of one message's dead letter.

    Its generators yield between two waits: the loop, which takes them on, polls the consumer there,
    and what comes joins the read-ahead. True: it polls at once; False: if it is time to.
    """

    def __init__(
        self,
        clock: Clock,
        read_ahead: ReadAhead,
        assignment: Assignment,
        *,
        answer_within_s: float,
        is_stopping: Callable[[], bool],
    ) -> None:
        """librdkafka answers within its own timeouts; `answer_within_s` is for when it does not.

        Once `is_stopping()`, an answer is waited for a second at most.
        """
        self._clock = clock
        self._read_ahead = read_ahead
        self._assignment = assignment
        self._answer_within_s = answer_within_s
        self.is_stopping = is_stopping

    def wait_for(
        self,
        done: Callable[[], bool],
        held: Held[Any],
        wait: Callable[[float], object],
        *,
        within_s: float | None = None,
        polls_at_once: bool = False,
    ) -> Steps[bool]:
        """Call `wait` with some seconds until `done()`, or until `within_s` (or longer) is over.

        False: not waited for any longer, as the partition is not ours any more, or the consumer
        stops.
        """
        clock, stop_by_s = self._clock, float("inf")
        give_up_at_s = clock.now_s() + (self._answer_within_s if within_s is None else within_s)
        while not done() and clock.now_s() < give_up_at_s:
            if self.is_stopping():
                stop_by_s = min(stop_by_s, clock.now_s() + STOP_GRACE_S)
            if clock.now_s() >= stop_by_s:
                return False
            wait(min(self._read_ahead.touch_s, _LONGEST_WAIT_S))
            if not done():
                yield polls_at_once
            if not self.is_ours(held):
                return done()
        return True

    def retry_until(
        self, call: Callable[[float], Step], within_s: float, *, grace_s: float = STOP_GRACE_S
    ) -> Step:
        """Call again where it was not answered, for so long, and without polling the consumer.

        `call` takes some seconds. Once `is_stopping()`, it is called for `grace_s` at most.
        """
        clock, stop_by_s = self._clock, float("inf")
        give_up_at_s = clock.now_s() + within_s
        while isinstance(step := call(_LONGEST_WAIT_S), Unfinished):
            if self.is_stopping():
                stop_by_s = min(stop_by_s, clock.now_s() + grace_s)
            if clock.now_s() >= min(give_up_at_s, stop_by_s):
                break
        return step

    def is_ours(self, held: Held[Any]) -> bool:
        """Whether its partition is still, and without a break, ours."""
        return self._assignment.epochs.get(held.partition) == held.epoch

    def has_come_back(self, held: Held[Any]) -> bool:
        """Whether it is ours, and was not in between: its message comes again."""
        return self._assignment.epochs.get(held.partition) not in (None, held.epoch)
