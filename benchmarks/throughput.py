"""Measures the successful path against a bare loop."""

from __future__ import annotations

from collections.abc import Sequence

from benchmarks.child import apart
from benchmarks.contestants import ALIKE, Config, bare_batches, linear_consumer
from benchmarks.course import Course
from benchmarks.figures import Figure, Result, Target
from benchmarks.scale import Scale
from benchmarks.topics import config_of_new_group, filled_topic
from tests.real_kafka import RealKafka

_WORK_S = 10e-6


def run(kafka: RealKafka, scale: Scale) -> Result:
    """Every contestant once a round, each in a process and a group of its own."""
    messages = scale.messages
    topic = filled_topic(kafka, messages)

    def bare(work_s: float, more: Config) -> float:
        return apart(bare_s, config_of_new_group(kafka, **more), topic, messages, work_s)

    def ours(work_s: float) -> float:
        return apart(ours_s, config_of_new_group(kafka), topic, messages, work_s)

    def own_loop() -> float:
        return apart(own_loop_s, config_of_new_group(kafka), topic, messages)

    bare(0, ALIKE)  # not counted: the broker's code is compiled, and its files are in memory then
    rounds = [
        (own_loop(), ours(0), bare(0, ALIKE), bare(0, {}), ours(_WORK_S), bare(_WORK_S, ALIKE))
        for _ in range(scale.rounds)
    ]
    return Result(_figures(messages, rounds))


def bare_s(config: Config, topic: str, messages: int, work_s: float) -> float:
    """Seconds from the first handled message to the last."""
    course = Course(messages, work_s)
    bare_batches(config, topic, course.handler(), lambda: course.finished)
    return course.took_s


def ours_s(config: Config, topic: str, messages: int, work_s: float) -> float:
    """The same, with the same handler."""
    course = Course(messages, work_s)
    with linear_consumer(config, topic) as consumer:
        course.at_end = consumer.stop
        consumer.run(course.handler())
    return course.took_s


def own_loop_s(config: Config, topic: str, messages: int) -> float:
    """The same, with a no-op handler called in a loop of one's own instead of by `run`."""
    course = Course(messages)
    handle = course.handler()
    with linear_consumer(config, topic) as consumer:
        course.at_end = consumer.stop
        for attempt in consumer:
            with attempt as message:
                handle(message)
    return course.took_s


def _figures(messages: int, rounds: Sequence[tuple[float, ...]]) -> tuple[Figure, ...]:
    own, ours, bare, default, ours_busy, bare_busy = zip(*rounds, strict=True)

    def rate(name: str, took: tuple[float, ...]) -> Figure:
        return Figure(name, "messages/s", tuple(messages / took_s for took_s in took))

    def ratio(name: str, theirs: tuple[float, ...], us: tuple[float, ...], goal: float) -> Figure:
        values = tuple(their_s / our_s for their_s, our_s in zip(theirs, us, strict=True))
        return Figure(name, "times", values, Target("at least", goal))

    def more(name: str, took: tuple[float, ...], than: tuple[float, ...], goal: float) -> Figure:
        values = tuple((a - b) / messages * 1e6 for a, b in zip(took, than, strict=True))
        return Figure(name, "µs", values, Target("at most", goal))

    return (
        rate("ours, no-op handler", ours),
        rate("your own loop, no-op handler", own),
        rate("bare loop, no-op handler", bare),
        rate("bare loop at librdkafka's defaults, no-op handler", default),
        rate("ours, 10 µs handler", ours_busy),
        rate("bare loop, 10 µs handler", bare_busy),
        more("ours more than bare, for each message", ours, bare, 0.1),
        more("your own loop more than run, for each message", own, ours, 0.5),
        ratio("ours / bare, 10 µs handler", bare_busy, ours_busy, 0.98),
        ratio("ours / bare at librdkafka's defaults", default, ours, 4.0),
    )
