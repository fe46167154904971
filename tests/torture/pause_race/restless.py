"""Makes a group rebalance, again and again."""

import queue
from collections.abc import Callable
from typing import Any

from confluent_kafka import Consumer, TopicPartition

from linear_retry.retry.clock import SystemClock

_LONGEST_POLL_S = 0.02


class Restless(Consumer):
    """A client that leaves its group and joins again between two polls, when it is asked to.

    What was here before librdkafka remembers as paused, if it was (confluent-kafka-go #193); while
    `forgetful`, it is assigned as to a new client, which is what has to be raced.
    """

    def __init__(self, config: dict[str, Any]) -> None:
        super().__init__(config)
        self.forgetful = True
        self._todo: queue.SimpleQueue[Callable[[], None]] = queue.SimpleQueue()
        self._topics: list[str] = []
        self._callbacks: dict[str, Any] = {}

    def leave(self) -> None:
        """For any thread: at the next poll."""
        self._todo.put(super().unsubscribe)

    def join(self) -> None:
        """For any thread: at the next poll."""
        self._todo.put(lambda: super(Restless, self).subscribe(self._topics, **self._callbacks))

    def subscribe(self, topics: list[str], *_: Any, **callbacks: Any) -> None:
        on_assign = callbacks["on_assign"]

        def assigned(client: Consumer, partitions: list[TopicPartition]) -> None:
            if self.forgetful:
                self.resume([TopicPartition(one.topic, one.partition) for one in partitions])
            on_assign(client, partitions)

        self._topics, self._callbacks = topics, callbacks | {"on_assign": assigned}
        super().subscribe(topics, **self._callbacks)

    def poll(self, timeout: float = _LONGEST_POLL_S) -> Any:
        while not self._todo.empty():
            self._todo.get()()
        return super().poll(min(timeout, _LONGEST_POLL_S))


def visit(config: dict[str, Any], topics: list[str], until: Callable[[int], bool]) -> None:
    """Another member takes a share, and gives it back. It handles nothing, and commits nothing.

    `until`, asked again and again with the size of its share, says when it goes.
    """
    with Consumer(config | {"enable.auto.commit": False}) as visitor:
        visitor.subscribe(topics)
        # Each look polls: a member that does not poll is given nothing.
        while not until(len(visitor.assignment())):
            visitor.poll(_LONGEST_POLL_S)


class LeapingClock:
    """The machine's clock, and what somebody has added to it."""

    def __init__(self) -> None:
        self._machine = SystemClock()
        self._leapt_s = 0.0

    def leap(self, seconds: float) -> None:
        """So much later it is, all at once."""
        self._leapt_s += seconds

    def now_s(self) -> float:
        return self._machine.now_s() + self._leapt_s

    def awake_s(self) -> float:
        return self._machine.awake_s() + self._leapt_s

    def utc_ms(self) -> int:
        return self._machine.utc_ms() + round(self._leapt_s * 1000)
