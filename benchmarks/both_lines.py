"""Measures what a retry line that computes costs the live line, by where it runs."""

import logging
import signal
import time
from typing import Any

from confluent_kafka import Message

from benchmarks.contestants import Config
from benchmarks.figures import Figure, Result, Target
from benchmarks.scale import Scale
from benchmarks.topics import config_of_new_group
from linear_retry import DeadLetters, LinearConsumer, RetryTopics, run_together
from tests.real_kafka import RealKafka

_FAILING, _MESSAGES = 600, 1_500
_IO_S, _COMPUTES_S = 0.001, 0.05
_LOST = b"fails"


class Handler:
    """1 ms of I/O for each message on the live line, 50 ms of computing on the retry line."""

    def __init__(self, timed: int) -> None:
        """The rate is that of this many messages, after as many others."""
        self._timed = timed
        self._handled = 0
        self._begun_at_s = 0.0
        self.rate = 0.0

    def __call__(self, message: Message) -> None:
        """Ends the live line, as Ctrl-C does, when the last message has been handled."""
        if ".retry." in (message.topic() or ""):
            _compute()
            return
        if message.value() == _LOST:
            raise OSError("down")
        time.sleep(_IO_S)
        self._handled += 1
        if self._handled == self._timed:
            self._begun_at_s = time.monotonic()
        if self._handled == 2 * self._timed:
            self.rate = self._timed / (time.monotonic() - self._begun_at_s)
            signal.raise_signal(signal.SIGINT)


def run(kafka: RealKafka, scale: Scale) -> Result:
    """The live line alone, beside the retry line in a process, and beside it in a thread."""
    _silence()
    timed = min(_MESSAGES, scale.messages)
    rounds = [
        (
            _alone(kafka, timed),
            _together(kafka, timed, threads=False),
            _together(kafka, timed, threads=True),
        )
        for _ in range(scale.rounds)
    ]
    alone, process, thread = zip(*rounds, strict=True)
    kept = tuple(there / here for here, there in zip(alone, process, strict=True))
    return Result(
        (
            Figure("live line alone", "1/s", alone),
            Figure("beside a process that computes", "1/s", process),
            Figure("relative to the live line alone", "", kept, Target("at least", 0.9)),
            Figure("beside a thread that computes", "1/s", thread),
        )
    )


def _alone(kafka: RealKafka, timed: int) -> float:
    handler, (live, _) = Handler(timed), _lines(kafka, timed)
    with live:
        live.run(handler)
    return handler.rate


def _together(kafka: RealKafka, timed: int, *, threads: bool) -> float:
    handler = Handler(timed)
    run_together(*_lines(kafka, timed), handler, threads=threads)
    return handler.rate


def _lines(kafka: RealKafka, timed: int) -> tuple[LinearConsumer, LinearConsumer]:
    """Both lines of a new group, on topics of its own."""
    config = config_of_new_group(kafka)
    source = f"of-{config['group.id']}"
    retries = RetryTopics(f"{source}.retry", strategy=["1s"], limit=None)
    kafka.create_topic(source)
    kafka.create_topic(f"{source}.dlq")
    settings = {"message.timestamp.type": "LogAppendTime", "retention.ms": "1209600000"}
    for topic in retries.topics:
        kafka.create_topic(topic, 1, settings)
    values = [_LOST] * _FAILING + [b"done"] * (2 * timed)
    kafka.produce(source, ((0, None, value, ()) for value in values))
    live = _line(config, [source], source, on_exhausted=retries)
    return live, _line(config, retries, source)


def _line(config: Config, topics: Any, source: str, **options: Any) -> LinearConsumer:
    letters = DeadLetters(f"{source}.dlq", limit=None)
    return LinearConsumer(
        config, topics, strategy=[], transient=OSError, dead_letters=letters, **options
    )


def _compute() -> None:
    until_s = time.monotonic() + _COMPUTES_S
    while time.monotonic() < until_s:
        sum(range(1000))


def _silence() -> None:
    logger = logging.getLogger("linear_retry")
    logger.addHandler(logging.NullHandler())
    logger.propagate = False
