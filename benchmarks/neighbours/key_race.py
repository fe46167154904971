"""Races libraries that handle many keys of a partition at once, each key in its order."""

from collections.abc import Callable
from functools import partial

from benchmarks.child import in_child
from benchmarks.figures import Figure, Result
from benchmarks.java import JavaProgram, NotBuiltError, output_of
from benchmarks.neighbours.race import Neighbour, installed, rate_of
from benchmarks.scale import Scale
from benchmarks.side_by_side import BY_KEY, IO_S, ours_in_tasks_s, ours_s
from benchmarks.topics import config_of_new_group, filled_topic
from tests.real_kafka import RealKafka

_AT_ONCE = 32
_MOST_MESSAGES = 100_000
NEIGHBOURS = (
    Neighbour(
        "Pyrallel Consumer",
        "pyrallel-consumer==1.0.0",
        "pyrallel",
        pythons=("python3.13", "python3.12"),
    ),
    Neighbour("FastStream", "faststream[confluent]==0.7.8", "fast_stream", 5),
)
JAVA = JavaProgram("parallel_consumer", "benchmark.KeyBenchmark")


def run(kafka: RealKafka, scale: Scale) -> Result:
    """Each message waits for 1 ms, as if for a database; 10,000 keys in 4 partitions."""
    pythons, notes = installed(NEIGHBOURS)
    count = min(scale.messages, _MOST_MESSAGES)
    topic = filled_topic(kafka, count, BY_KEY.partitions, keys=BY_KEY.keys)
    contestants: dict[str, Callable[[], float]] = {
        f"ours, {_AT_ONCE} threads": partial(_ours, kafka, topic, count, ours_s),
        f"ours, {_AT_ONCE} tasks": partial(_ours, kafka, topic, count, ours_in_tasks_s),
    }
    for neighbour, python in pythons.items():
        messages = max(count // neighbour.share, 2)
        contestants[neighbour.requirement] = partial(
            rate_of, kafka, topic, neighbour, python, messages, io_s=IO_S, at_once=_AT_ONCE
        )
    try:
        JAVA.build()
        contestants["parallel-consumer (Java)"] = partial(_java, kafka, topic, count)
    except NotBuiltError as error:
        notes.append(f"parallel-consumer is not here: {error}")
    rates: dict[str, list[float]] = {name: [] for name in contestants}
    for _ in range(scale.rounds):
        for name, measure in contestants.items():
            rates[name].append(measure())
    notes.append("FastStream keeps no order, and has committed a message before it is handled")
    return Result(
        tuple(Figure(name, "messages/s", tuple(values)) for name, values in rates.items()),
        notes=tuple(notes),
    )


def _ours(kafka: RealKafka, topic: str, count: int, measure: Callable[..., float]) -> float:
    config = config_of_new_group(kafka)
    return count / in_child(measure, config, topic, count, _AT_ONCE, IO_S, BY_KEY)


def _java(kafka: RealKafka, topic: str, count: int) -> float:
    program = JAVA.start(
        {
            "bootstrap": kafka.bootstrap,
            "group": config_of_new_group(kafka)["group.id"],
            "topic": topic,
            "messages": count,
            "atOnce": _AT_ONCE,
            "ioMs": round(IO_S * 1000),
        }
    )
    return count / float(output_of(program))
