"""Measures the successful path against a bare loop."""

from collections.abc import Sequence

from benchmarks.child import in_child
from benchmarks.contestants import ALIKE, Config, bare_batches, linear_consumer
from benchmarks.figures import Figure, Result, Target
from benchmarks.scale import Scale
from benchmarks.stopwatch import Stopwatch
from benchmarks.topics import config_of_new_group, filled_topic
from linear_retry.kafka import Message
from tests.real_kafka import RealKafka

_WORK_S = 10e-6


def run(kafka: RealKafka, scale: Scale) -> Result:
    """Every contestant once a round, each in a process and a group of its own."""
    messages = scale.messages
    topic = filled_topic(kafka, messages)

    def bare(work_s: float, more: Config) -> float:
        return in_child(bare_s, config_of_new_group(kafka, **more), topic, messages, work_s)

    def ours(work_s: float) -> float:
        return in_child(ours_s, config_of_new_group(kafka), topic, messages, work_s)

    def own_loop() -> float:
        return in_child(own_loop_s, config_of_new_group(kafka), topic, messages)

    def batches() -> float:
        return in_child(batches_s, config_of_new_group(kafka), topic, messages)

    bare(0, ALIKE)  # not counted: the broker's code is compiled, and its files are in memory then
    rounds = [
        (
            *(own_loop(), batches(), ours(0), bare(0, ALIKE), bare(0, {})),
            *(ours(_WORK_S), bare(_WORK_S, ALIKE)),
        )
        for _ in range(scale.rounds)
    ]
    return Result(_figures(messages, rounds))


def bare_s(config: Config, topic: str, messages: int, work_s: float) -> float:
    """Seconds from the first handled message to the last."""
    stopwatch = Stopwatch(messages, work_s)
    bare_batches(config, topic, stopwatch.handler(), lambda: stopwatch.finished)
    return stopwatch.elapsed_s


def ours_s(config: Config, topic: str, messages: int, work_s: float) -> float:
    """The same, with the same handler."""
    stopwatch = Stopwatch(messages, work_s)
    with linear_consumer(config, topic) as consumer:
        stopwatch.at_end = consumer.stop
        consumer.run(stopwatch.handler())
    return stopwatch.elapsed_s


def own_loop_s(config: Config, topic: str, messages: int) -> float:
    """The same, with a no-op handler called in a loop of one's own instead of by `run`."""
    stopwatch = Stopwatch(messages)
    handle = stopwatch.handler()
    with linear_consumer(config, topic) as consumer:
        stopwatch.at_end = consumer.stop
        for attempt in consumer:
            with attempt as message:
                handle(message)
    return stopwatch.elapsed_s


def batches_s(config: Config, topic: str, messages: int) -> float:
    """The same, with lists of up to 500, each of whose messages is handled."""
    stopwatch = Stopwatch(messages)
    handle = stopwatch.handler()

    def handle_all(batch: list[Message]) -> None:
        for message in batch:
            handle(message)

    with linear_consumer(config, topic) as consumer:
        stopwatch.at_end = consumer.stop
        consumer.run_batches(handle_all)
    return stopwatch.elapsed_s


def _figures(messages: int, rounds: Sequence[tuple[float, ...]]) -> tuple[Figure, ...]:
    own, batches, ours, bare, default, ours_busy, bare_busy = zip(*rounds, strict=True)

    def rate(name: str, elapsed: tuple[float, ...]) -> Figure:
        return Figure(name, "messages/s", tuple(messages / elapsed_s for elapsed_s in elapsed))

    def ratio(name: str, theirs: tuple[float, ...], us: tuple[float, ...], goal: float) -> Figure:
        values = tuple(their_s / our_s for their_s, our_s in zip(theirs, us, strict=True))
        return Figure(name, "times", values, Target("at least", goal))

    def more(name: str, elapsed: tuple[float, ...], than: tuple[float, ...], goal: float) -> Figure:
        values = tuple((a - b) / messages * 1e6 for a, b in zip(elapsed, than, strict=True))
        return Figure(name, "µs", values, Target("at most", goal))

    return (
        rate("ours, no-op handler", ours),
        rate("your own loop, no-op handler", own),
        rate("run_batches, no-op handler for each message", batches),
        rate("bare loop, no-op handler", bare),
        rate("bare loop at librdkafka's defaults, no-op handler", default),
        rate("ours, 10 µs handler", ours_busy),
        rate("bare loop, 10 µs handler", bare_busy),
        more("ours more than bare, for each message", ours, bare, 0.1),
        more("your own loop more than run, for each message", own, ours, 0.5),
        ratio("run_batches / run", ours, batches, 0.5),
        ratio("ours / bare, 10 µs handler", bare_busy, ours_busy, 0.98),
        ratio("ours / bare at librdkafka's defaults", default, ours, 4.0),
    )
