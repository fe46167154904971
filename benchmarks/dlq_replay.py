"""Measures the rate of a transactional `dlq replay`, and its memory."""

import time

from benchmarks.child import in_child
from benchmarks.figures import Figure, Result, Target
from benchmarks.letters import topic_of_letters
from benchmarks.machine import peak_memory_mib
from benchmarks.scale import Scale
from benchmarks.topics import PARTITIONS
from linear_retry.dlq import DeadLetterTopic
from tests.real_kafka import RealKafka

_ROUNDS_AT_MOST = 3


def run(kafka: RealKafka, scale: Scale) -> Result:
    """Planned and sent, each time from a new topic; first a tenth, for the memory."""
    letters = scale.replayed_letters
    origin = "replayed"
    kafka.create_topic(origin, PARTITIONS)
    small, large = [], []
    for _ in range(min(scale.rounds, _ROUNDS_AT_MOST)):
        small.append(
            in_child(replay, kafka.bootstrap, topic_of_letters(kafka, letters // 10, origin))
        )
        large.append(in_child(replay, kafka.bootstrap, topic_of_letters(kafka, letters, origin)))
    sending = tuple(letters / sent_s for _, sent_s, _ in large)
    whole = tuple(letters / (planned_s + sent_s) for planned_s, sent_s, _ in large)
    return Result(
        (
            Figure("sent, from taking over to the end", "letters/s", sending, _TARGET),
            Figure("read, put in order and sent", "letters/s", whole),
            Figure(
                f"resident at the most, {letters // 10:,} letters",
                "MiB",
                tuple(size_mib for _, _, size_mib in small),
            ),
            Figure(
                f"the same, {letters:,} letters", "MiB", tuple(size_mib for _, _, size_mib in large)
            ),
        ),
        notes=("transactions of up to 5,000 letters, each with a record for each of its letters",),
    )


_TARGET = Target("at least", 20_000.0)


def replay(bootstrap: str, topic: str) -> tuple[float, float, float]:
    """Seconds to plan it, seconds to send it, and the MiB that the process had at the most."""
    begun_s = time.perf_counter()
    with (
        DeadLetterTopic(topic, {"bootstrap.servers": bootstrap}) as letters,
        letters.plan_replay() as plan,
    ):
        planned_s = time.perf_counter()
        sent = letters.replay(plan, by="benchmark")
        ended_s = time.perf_counter()
        assert sent == plan.letters > 0
    return planned_s - begun_s, ended_s - planned_s, peak_memory_mib()
