"""Measures whether the retry line slows the live line down."""

import tempfile
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from confluent_kafka import Message

from benchmarks.child import Child
from benchmarks.contestants import Config
from benchmarks.figures import Figure, Result, Target
from benchmarks.retry_topics.lines import (
    fill,
    live_line,
    new_letters_topic,
    new_retry_topics,
    retry_line,
)
from benchmarks.scale import Scale
from benchmarks.topics import config_of_new_group, filled_topic
from linear_retry import RetryTopics, run_together
from tests.kafka_operations import wait_until
from tests.real_kafka import RealKafka

_LIVE_S, _RETRY_S = 0.001, 0.002
_LIVE_PER_S = 1000
_DELAYS_S = (0.5, 3600.0)  # half of the messages are due at the start; the others are not
_BEGIN_LIMIT_S = 60.0
_TARGET = Target("at least", 0.9)


def compute(cpu_s: float) -> None:
    """Takes so much processor time, however many threads are in each other's way."""
    until_s = time.thread_time() + cpu_s
    while time.thread_time() < until_s:
        pass


_WORKS: dict[str, Callable[[float], object]] = {"1 ms of I/O": time.sleep, "1 ms of CPU": compute}


@dataclass(slots=True)
class Handler:
    """The same for both lines: computes for a retry, and for a live message computes or sleeps.

    A file says that the retry line is at work, in whatever process; the live line begins then.
    """

    live_topic: str
    work: Callable[[float], object]
    begun: Path
    handled: int = 0

    def __call__(self, message: Message) -> None:
        if message.topic() != self.live_topic:
            self.begun.touch()
            compute(_RETRY_S)
            return
        if not self.handled:
            wait_until(self.begun.exists, "the retry line is at work", within_s=_BEGIN_LIMIT_S)
        self.work(_LIVE_S)
        self.handled += 1


def run(kafka: RealKafka, scale: Scale) -> Result:
    """The live line alone, beside a retry line in a process, and beside one in a thread."""
    topic = filled_topic(kafka, int(scale.live_s * _LIVE_PER_S * 2) + 1)
    figures = []
    for name, work in _WORKS.items():
        rounds = [
            tuple(_rate(kafka, scale, topic, work, mode) for mode in ("alone", "process", "thread"))
            for _ in range(scale.rounds)
        ]
        alone, process, thread = zip(*rounds, strict=True)
        figures += [
            Figure(f"live line alone, {name}", "messages/s", alone),
            Figure(
                f"retry line in a process / alone, {name}", "times", _ratio(process, alone), _TARGET
            ),
            Figure(f"retry line in a thread / alone, {name}", "times", _ratio(thread, alone)),
        ]
    note = f"the retry line's handler computes for {_RETRY_S * 1000:g} ms"
    return Result(tuple(figures), notes=(note,))


def _ratio(rates: tuple[float, ...], alone: tuple[float, ...]) -> tuple[float, ...]:
    return tuple(rate / by_itself for rate, by_itself in zip(rates, alone, strict=True))


def _rate(
    kafka: RealKafka, scale: Scale, topic: str, work: Callable[[float], object], mode: str
) -> float:
    retries, config = new_retry_topics(kafka, _DELAYS_S), config_of_new_group(kafka)
    for each in retries.topics:
        fill(kafka, retries, each, config["group.id"], scale.waiting_beside_live // 2)
    letters = new_letters_topic(kafka)
    with tempfile.TemporaryDirectory() as directory:
        handler = Handler(topic, work, Path(directory) / "begun")
        arguments = (config, retries, letters, handler, mode, scale.live_s)
        return Child(live_rate, *arguments, has_children=True).result()


def live_rate(
    config: Config, retries: RetryTopics, letters: str, handler: Handler, mode: str, live_s: float
) -> float:
    """Live messages per second, while the retry line is at work."""
    rates: list[float] = []

    def measure() -> None:
        wait_until(lambda: handler.handled, "the live line is at work", within_s=_BEGIN_LIMIT_S)
        begun_s, before = time.monotonic(), handler.handled
        time.sleep(live_s)
        rates.append((handler.handled - before) / (time.monotonic() - begun_s))
        live.stop()

    watch = threading.Thread(target=measure)
    watch.start()
    live = live_line(config, handler.live_topic, retries, letters)
    if mode == "alone":
        handler.begun.touch()
        with live:
            live.run(handler)
    else:
        retry = partial(retry_line, config, retries, letters)
        run_together(live, retry, handler, threads=mode == "thread")
    watch.join()
    return rates[0]
