"""Measures order by key where keys are held: recovery, passing over, notes, and a kill."""

import mmap
import threading
import time
from pathlib import Path
from tempfile import TemporaryDirectory

from confluent_kafka import Consumer, Message, TopicPartition

from benchmarks.child import CONTEXT, LIMIT_S, in_child
from benchmarks.contestants import Config, linear_consumer
from benchmarks.figures import Figure, Result, Target, percentile
from benchmarks.scale import Scale
from benchmarks.topics import PARTITIONS, config_of_new_group, filled_topic
from linear_retry import ByKey
from linear_retry.records.commit_note import CommitNote, Digests, NotedFailures, Undone, write_note
from tests.kafka_operations import wait_until
from tests.real_kafka import RealKafka

_KEYS = 1_000
_HELD, _APART = 100, 10_000
_THREADS, _IO_S = 8, 0.001
_MOST_KILLED = 40_000


def run(kafka: RealKafka, scale: Scale) -> Result:
    """Each figure by itself: they have little in common but the keys."""
    rounds = range(scale.rounds)
    recovered = [_recovery_ms(kafka, scale.retried_messages_each) for _ in rounds]
    passed_over = tuple(_passing_over(kafka, scale.messages) for _ in rounds)
    notes = [note_of_held_keys(scale.messages) for _ in rounds]
    twice = tuple(_twice_s(kafka, min(scale.messages, _MOST_KILLED)) for _ in rounds)

    def over_rounds(percent: float) -> tuple[float, ...]:
        return tuple(percentile(each, percent) for each in recovered)

    took_ms, characters = (tuple(each) for each in zip(*notes, strict=True))
    return Result(
        (
            Figure("next message of a key after its probe, p50", "ms", over_rounds(50)),
            Figure(
                "next message of a key after its probe, p99",
                "ms",
                over_rounds(99),
                Target("at most", 50.0),
            ),
            Figure("passed over", "messages/s", passed_over, Target("at least", 150_000)),
            Figure(f"note of {_HELD} held keys, written", "ms", took_ms, Target("at most", 0.5)),
            Figure(
                f"note of {_HELD} held keys, size",
                "characters",
                characters,
                Target("at most", 1_800),
            ),
            Figure("work done twice after kill -9", "s", twice, Target("at most", 1.0)),
        ),
        notes=(
            f"kill -9: {_THREADS} threads with 1 ms of I/O over {_KEYS} keys, half of the messages",
        ),
    )


def _recovery_ms(kafka: RealKafka, keys: int) -> list[float]:
    topic = filled_topic(kafka, 2 * keys, 1, keys=keys)
    return in_child(recovery_ms, config_of_new_group(kafka), topic, keys)


def recovery_ms(config: Config, topic: str, keys: int) -> list[float]:
    """Each key fails once: from the end of the probe that succeeds to its next message."""
    ended_s: dict[bytes | None, float] = {}
    failed: set[bytes | None] = set()
    took_ms: list[float] = []

    def handle(message: Message) -> None:
        key = message.key()
        if key in ended_s:
            took_ms.append((time.perf_counter() - ended_s[key]) * 1000)
            if len(took_ms) == keys:
                consumer.stop()
        elif key in failed:
            ended_s[key] = time.perf_counter()
        else:
            failed.add(key)
            raise OSError("down")

    # All fail at first, which is no outage here.
    scope = ByKey(trip=keys + 1, most_held=keys + 1)
    with linear_consumer(config, topic, delays_s=[0.2], scope=scope) as consumer:
        consumer.run(handle)
    return took_ms


def _passing_over(kafka: RealKafka, messages: int) -> float:
    topic = filled_topic(kafka, messages, 1, keys=_KEYS)
    config = config_of_new_group(kafka)
    group = config["group.id"]
    first = Undone("key", 0, Digests(group).of_key(b"0"))
    text = write_note(CommitNote(0, messages - 1, (first,)), group, (topic, 0))
    owner_before = Consumer(config)
    owner_before.commit(offsets=[TopicPartition(topic, 0, 0, text)], asynchronous=False)
    owner_before.close()
    return messages / in_child(passing_over_s, config, topic, messages)


def passing_over_s(config: Config, topic: str, messages: int) -> float:
    """Seconds from the first message, which is not done, to the last: one key of all is not."""
    began_s = ended_s = 0.0

    def handle(message: Message) -> None:
        nonlocal began_s, ended_s
        began_s = began_s or time.perf_counter()
        if message.offset() == messages - 1:
            ended_s = time.perf_counter()
            consumer.stop()

    with linear_consumer(config, topic, scope="key", concurrency=_THREADS) as consumer:
        consumer.run(handle)
    return ended_s - began_s


def note_of_held_keys(messages: int) -> tuple[float, float]:
    """Milliseconds that writing the note of 100 held keys takes, and its characters."""
    digests, now_ms = Digests("orders"), int(time.time() * 1000)
    failures = NotedFailures(3, now_ms - 90_000, now_ms - 30_000, now_ms + 30_000)
    undone = tuple(
        Undone("key", number * _APART, digests.of_key(b"%d" % number), failures)
        for number in range(_HELD)
    )
    note = CommitNote(0, _HELD * _APART, undone, leader_epoch=3)
    times = max(messages // 1_000, 1)
    began_s = time.process_time()
    for _ in range(times):
        text = write_note(note, "orders", ("orders", 0))
    return (time.process_time() - began_s) * 1000 / times, float(len(text))


def _twice_s(kafka: RealKafka, messages: int) -> float:
    """How long the messages that are handled again after a kill took to handle at first."""
    topic = filled_topic(kafka, messages, keys=_KEYS)
    # Else the group waits for the killed member for 45 s.
    config = config_of_new_group(kafka, **{"session.timeout.ms": 6000})
    with TemporaryDirectory() as directory:
        counts = Path(directory) / "counts"
        counts.write_bytes(bytes(messages))
        killed = CONTEXT.Process(target=count_handled, args=(config, topic, counts), daemon=True)
        killed.start()
        began_s = _handled(counts, 1)
        took_s = _handled(counts, messages // 2) - began_s
        killed.kill()
        killed.join()
        rate = sum(counts.read_bytes()) / took_s
        in_child(count_handled, config, topic, counts)
        return (sum(counts.read_bytes()) - messages) / rate


def count_handled(config: Config, topic: str, counts: Path) -> None:
    """Handles the topic to its end; counts in a file, a byte for each message, how often."""
    with counts.open("r+b") as file, mmap.mmap(file.fileno(), 0) as handled:
        left, lock = handled[:].count(0), threading.Lock()
        share = len(handled) // PARTITIONS  # messages are dealt out to them in turn

        def handle(message: Message) -> None:
            nonlocal left
            time.sleep(_IO_S)
            at = (message.partition() or 0) * share + (message.offset() or 0)
            with lock:
                left -= not handled[at]
                handled[at] += 1
            if not left:
                consumer.stop()

        with linear_consumer(config, topic, scope="key", concurrency=_THREADS) as consumer:
            consumer.run(handle)


def _handled(counts: Path, wanted: int) -> float:
    """When so many were handled."""
    wait_until(
        lambda: sum(counts.read_bytes()) >= wanted, f"{wanted} are handled", within_s=LIMIT_S
    )
    return time.perf_counter()
