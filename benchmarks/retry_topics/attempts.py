"""Who brings a message back: both lines of ours, and Spring Kafka's `@RetryableTopic`."""

import time
from collections.abc import Mapping
from multiprocessing.synchronize import Event as Ready
from typing import Protocol, TypeAlias

from confluent_kafka import Message

from benchmarks.child import CONTEXT, Child
from benchmarks.contestants import Config
from benchmarks.java import JavaProgram, output_of
from benchmarks.retry_topics.lines import (
    live_line,
    new_letters_topic,
    new_retry_topics,
    retry_line,
)
from benchmarks.topics import config_of_new_group
from linear_retry import RetryTopics
from tests.real_kafka import RealKafka

WARM_UP = 20
_READY_LIMIT_S = 60.0
SPRING = JavaProgram("spring_retry", "benchmark.RetryBenchmark")

Attempts: TypeAlias = Mapping[str, tuple[float, float]]
"""By its value: when each message was first attempted, and when again, in Unix seconds."""


class Contestant(Protocol):
    """Fails each message of a topic once, and attempts it again after the delay."""

    def wait_until_ready(self) -> None:
        """Until the first `WARM_UP` messages have come back."""

    def attempts(self) -> Attempts:
        """Waits for the last message."""


class Ours:
    """A process for each line."""

    def __init__(self, kafka: RealKafka, topic: str, messages: int, delay_s: float) -> None:
        retries, config = new_retry_topics(kafka, [delay_s]), config_of_new_group(kafka)
        letters = new_letters_topic(kafka)
        self._ready = CONTEXT.Event()
        self._live = Child(live_attempts, config, topic, retries, letters, messages)
        self._retry = Child(retry_attempts, config, retries, letters, messages, self._ready)

    def wait_until_ready(self) -> None:
        if not self._ready.wait(_READY_LIMIT_S):
            raise AssertionError("the first messages have not come back")

    def attempts(self) -> Attempts:
        first, second = self._live.result(), self._retry.result()
        return {value: (first[value], again_s) for value, again_s in second.items()}


class Spring:
    """A JVM for both."""

    def __init__(
        self,
        kafka: RealKafka,
        topic: str,
        messages: int,
        delay_s: float,
        *,
        seeks: bool,
    ) -> None:
        """`seeks`: it seeks after each failure, and fetches again, which is its default."""
        properties = {
            "bootstrap": kafka.bootstrap,
            "group": config_of_new_group(kafka)["group.id"],
            "topic": topic,
            "delay": round(delay_s * 1000),
            "messages": messages,
            "warmUp": min(WARM_UP, messages),
            "seekAfterError": str(seeks).lower(),
        }
        self._process = SPRING.start(properties)

    def wait_until_ready(self) -> None:
        assert self._process.stdout is not None
        if self._process.stdout.readline() != "ready\n":
            raise AssertionError("Spring Kafka failed: its error is above")

    def attempts(self) -> Attempts:
        found = (line.split() for line in output_of(self._process).splitlines())
        return {value: (int(first) / 1e6, int(second) / 1e6) for value, first, second in found}


def live_attempts(
    config: Config, topic: str, retries: RetryTopics, letters: str, messages: int
) -> Mapping[str, float]:
    """When each message was first attempted. The last is not: what fails then may stay unsent."""
    first: dict[str, float] = {}

    def handle(message: Message) -> None:
        if len(first) == messages:
            consumer.stop()
            return
        first[_value(message)] = time.time()
        raise OSError("down")

    with live_line(config, topic, retries, letters) as consumer:
        consumer.run(handle)
    return first


def retry_attempts(
    config: Config, retries: RetryTopics, letters: str, messages: int, ready: Ready
) -> Mapping[str, float]:
    """When each message was attempted again."""
    second: dict[str, float] = {}

    def handle(message: Message) -> None:
        second[_value(message)] = time.time()
        if len(second) == min(WARM_UP, messages):
            ready.set()
        if len(second) == messages:
            consumer.stop()

    with retry_line(config, retries, letters) as consumer:
        consumer.run(handle)
    return second


def _value(message: Message) -> str:
    return (message.value() or b"").decode()
