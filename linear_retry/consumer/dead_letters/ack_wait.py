"""How is an answer waited for while the member stays in its group?"""

from __future__ import annotations

from collections.abc import Callable

from linear_retry.consumer.state import Parts
from linear_retry.kafka.producers.transactional import Step, Unfinished
from linear_retry.retry.circuits import Held

STOP_GRACE_S = 1.0
_LONGEST_WAIT_S = 0.25  # a stop is heard between two calls into librdkafka, not inside one


class Patience:
    """Waits for what becomes of one message's letter."""

    def __init__(
        self,
        parts: Parts,
        *,
        answer_within_s: float,
        read_along: Callable[[], None],
        stopping: Callable[[], bool],
    ) -> None:
        """`read_along` polls the consumer without waiting; what comes joins the read-ahead.

        librdkafka answers within its own timeouts; `answer_within_s` is for when it does not answer
        at all. Once `stopping()`, an answer is waited for a second at most.
        """
        self._parts = parts
        self._answer_within_s = answer_within_s
        self.read_along = read_along
        self.stopping = stopping

    def until(
        self,
        done: Callable[[], bool],
        held: Held,
        wait: Callable[[float], object],
        *,
        within_s: float | None = None,
    ) -> bool:
        """Call `wait` with some seconds until `done()`, or until `within_s` (or longer) is over.

        Looks after the consumer now and then. False: not waited for any longer, as the partition
        is not ours any more, or the consumer stops. Raises what polling raises.
        """
        clock, read_ahead = self._parts.clock, self._parts.read_ahead
        stop_by_s = float("inf")
        give_up_at_s = clock.now_s() + (self._answer_within_s if within_s is None else within_s)
        while not done() and clock.now_s() < give_up_at_s:
            if self.stopping():
                stop_by_s = min(stop_by_s, clock.now_s() + STOP_GRACE_S)
            if clock.now_s() >= stop_by_s:
                return False
            wait(min(read_ahead.touch_s, _LONGEST_WAIT_S))
            if not done() and clock.now_s() >= read_ahead.deadline_s:
                self.read_along()
            if not self.is_ours(held):
                return done()
        return True

    def insist(
        self, call: Callable[[float], Step], within_s: float, *, grace_s: float = STOP_GRACE_S
    ) -> Step:
        """Call again where it was not answered, for so long, and without polling the consumer.

        `call` takes some seconds. Once `stopping()`, it is called for `grace_s` at most.
        """
        clock, stop_by_s = self._parts.clock, float("inf")
        give_up_at_s = clock.now_s() + within_s
        while isinstance(step := call(_LONGEST_WAIT_S), Unfinished):
            if self.stopping():
                stop_by_s = min(stop_by_s, clock.now_s() + grace_s)
            if clock.now_s() >= min(give_up_at_s, stop_by_s):
                break
        return step

    def is_ours(self, held: Held) -> bool:
        """Whether its partition is still, and without a break, ours."""
        return self._parts.assignment.epoch_of(held.partition) == held.epoch

    def has_come_back(self, held: Held) -> bool:
        """Whether it is ours, and was not in between: its message comes again."""
        return self._parts.assignment.epoch_of(held.partition) not in (None, held.epoch)
