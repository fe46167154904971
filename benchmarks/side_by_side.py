"""Measures partitions handled side by side, against plain threads over the same topic."""

import threading
import time
from collections.abc import Callable
from queue import SimpleQueue

from benchmarks.child import in_child
from benchmarks.contestants import ALIKE, Config, Handler, bare_consumer, linear_consumer
from benchmarks.figures import Figure, Result, Target
from benchmarks.scale import Scale
from benchmarks.topics import config_of_new_group, filled_topic
from linear_retry.kafka import Message
from tests.real_kafka import RealKafka

_PARTITIONS = 32
_IO_S = 0.001


def run(kafka: RealKafka, scale: Scale) -> Result:
    """Ours and plain threads in turn, with handlers that wait for I/O, and that do nothing."""
    figures: list[Figure] = []
    waiting, doing_nothing = min(scale.messages, 100_000), scale.messages
    for threads, share in ((8, 0.8), (32, 0.7)):
        of_us, of_plain = _rates(kafka, scale.rounds, waiting, threads, _IO_S)
        best = threads / _IO_S
        parts = tuple(rate / best for rate in of_us)
        figures += [
            Figure(f"ours, {threads} threads, 1 ms of I/O", "messages/s", of_us),
            Figure(f"plain threads, {threads}, 1 ms of I/O", "messages/s", of_plain),
            Figure(f"ours / threads per ms, {threads}", "times", parts, Target("at least", share)),
        ]
    of_us, of_plain = _rates(kafka, scale.rounds, doing_nothing, 8, 0.0)
    target = Target("at least", 60_000)
    figures += [
        Figure("ours, 8 threads, no-op handler", "messages/s", of_us, target),
        Figure("plain threads, 8, no-op handler", "messages/s", of_plain),
    ]
    note = "plain threads commit nothing, retry nothing and hold any number of messages in memory"
    return Result(tuple(figures), (note,))


def ours_s(config: Config, topic: str, messages: int, threads: int, io_s: float) -> float:
    """Seconds from the first handled message to the last."""
    counted = _Counted(messages, io_s)
    with linear_consumer(config, topic, concurrency=threads) as consumer:
        counted.at_end = consumer.stop
        consumer.run(counted)
    return counted.elapsed_s


def plain_s(config: Config, topic: str, messages: int, threads: int, io_s: float) -> float:
    """The same, with a queue for each thread, and the partitions dealt out to them."""
    counted = _Counted(messages, io_s)
    queues = [SimpleQueue[Message | None]() for _ in range(threads)]
    workers = [threading.Thread(target=_work, args=(queue, counted)) for queue in queues]
    for worker in workers:
        worker.start()
    consumer = bare_consumer(config, topic)
    while not counted.ended.is_set():
        for message in consumer.consume(500, 0.05):
            queues[(message.partition() or 0) % threads].put(message)
    consumer.close()
    for queue, worker in zip(queues, workers, strict=True):
        queue.put(None)
        worker.join()
    return counted.elapsed_s


class _Counted:
    """A handler that takes `io_s`, and notes when so many messages are handled."""

    def __init__(self, messages: int, io_s: float) -> None:
        self._left = messages
        self._io_s = io_s
        self._lock = threading.Lock()
        self._begun_s = 0.0
        self.elapsed_s = 0.0
        self.ended = threading.Event()
        self.at_end: Callable[[], object] = bool

    def __call__(self, _: Message) -> None:
        if not self._begun_s:
            self._begun_s = time.perf_counter()
        if self._io_s:
            time.sleep(self._io_s)
        with self._lock:
            self._left -= 1
        if not self._left:
            self.elapsed_s = time.perf_counter() - self._begun_s
            self.ended.set()
            self.at_end()


def _work(queue: "SimpleQueue[Message | None]", handler: Handler) -> None:
    while (message := queue.get()) is not None:
        handler(message)


def _rates(
    kafka: RealKafka, rounds: int, messages: int, threads: int, io_s: float
) -> tuple[tuple[float, ...], tuple[float, ...]]:
    topic = filled_topic(kafka, messages, _PARTITIONS)

    def rate(contestant: Callable[..., float], more: Config) -> float:
        config = config_of_new_group(kafka, **more)
        return messages / in_child(contestant, config, topic, messages, threads, io_s)

    pairs = [(rate(ours_s, {}), rate(plain_s, ALIKE)) for _ in range(rounds)]
    return tuple(ours for ours, _ in pairs), tuple(plain for _, plain in pairs)
