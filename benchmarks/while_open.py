"""Measures what an open circuit costs."""

from __future__ import annotations

import time
from dataclasses import dataclass
from typing import Any

from confluent_kafka import Consumer, Message

from benchmarks.child import in_child
from benchmarks.contestants import ALIKE, Config, bare_consumer, linear_consumer
from benchmarks.figures import Figure, Result, Target
from benchmarks.scale import Scale
from benchmarks.topics import config_of_new_group, filled_topic
from linear_retry.consumer.settings.consumer_config import Dependencies
from linear_retry.events import CircuitOpened, Event
from tests.real_kafka import RealKafka

_MESSAGES = 10_000


@dataclass(frozen=True, slots=True)
class Moment:
    """Where clock, CPU time (of all threads) and count of polls stand."""

    at_s: float
    cpu_s: float
    polls: int


@dataclass(frozen=True, slots=True)
class Cost:
    """From one moment to another."""

    cpu_percent: float
    polls_per_s: float

    @classmethod
    def between(cls, begin: Moment, end: Moment) -> Cost:
        wall_s = end.at_s - begin.at_s
        return cls(
            cpu_percent=(end.cpu_s - begin.cpu_s) / wall_s * 100,
            polls_per_s=(end.polls - begin.polls) / wall_s,
        )


class CountingConsumer(Consumer):
    """Counts what is asked of it."""

    def __init__(self, config: dict[str, Any]) -> None:
        super().__init__(config)
        self.polls = 0

    def poll(self, *arguments: Any) -> Any:
        self.polls += 1
        return super().poll(*arguments)

    def consume(self, *arguments: Any) -> Any:
        self.polls += 1
        return super().consume(*arguments)


def run(kafka: RealKafka, scale: Scale) -> Result:
    """With messages waiting: an open circuit of ours, and a bare loop that polls what it paused."""
    topic, open_s = filled_topic(kafka, _MESSAGES), scale.open_s
    rounds = [
        (
            in_child(ours, config_of_new_group(kafka), topic, open_s),
            in_child(bare, config_of_new_group(kafka, **ALIKE), topic, open_s),
        )
        for _ in range(scale.rounds)
    ]
    own, theirs = zip(*rounds, strict=True)
    cpu, polls = Target("at most", 2.0), Target("at most", 50.0)
    return Result(
        (
            Figure("CPU, ours while open", "%", tuple(cost.cpu_percent for cost in own), cpu),
            Figure("CPU, bare poll(1.0) while paused", "%", tuple(c.cpu_percent for c in theirs)),
            Figure("polls, ours while open", "1/s", tuple(c.polls_per_s for c in own), polls),
        )
    )


def ours(config: Config, topic: str, open_s: float) -> Cost:
    """From the opening of the circuit to the probe."""
    made: list[CountingConsumer] = []
    moments: list[Moment] = []

    def make(settings: dict[str, Any]) -> CountingConsumer:
        made.append(CountingConsumer(settings))
        return made[0]

    def note(event: Event) -> None:
        if isinstance(event, CircuitOpened):
            moments.append(now(made[0].polls))

    def handle(_: Message) -> None:
        if not moments:
            raise OSError("down")
        moments.append(now(made[0].polls))
        consumer.stop()

    dependencies = Dependencies(consumer=make)
    with linear_consumer(
        config, topic, delays_s=[open_s], listeners=(note,), dependencies=dependencies
    ) as consumer:
        consumer.run(handle)
    return Cost.between(*moments)


def bare(config: Config, topic: str, open_s: float) -> Cost:
    """What librdkafka and a loop cost that does nothing at all."""
    consumer = bare_consumer(config, topic)
    while consumer.poll(1.0) is None:
        pass
    consumer.pause(consumer.assignment())
    begin, polls = now(0), 0
    while time.monotonic() < begin.at_s + open_s:
        consumer.poll(1.0)
        polls += 1
    cost = Cost.between(begin, now(polls))
    consumer.close()
    return cost


def now(polls: int) -> Moment:
    return Moment(time.monotonic(), time.process_time(), polls)
