"""Measures partitions and keys handled side by side, against plain threads and plain tasks."""

import asyncio
import threading
import time
import warnings
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from queue import SimpleQueue

from benchmarks.child import in_child
from benchmarks.contestants import ALIKE, Config, Handler, bare_consumer, linear_consumer
from benchmarks.figures import Figure, Result, Target
from benchmarks.scale import Scale
from benchmarks.topics import config_of_new_group, filled_topic
from linear_retry.kafka import Message
from linear_retry.scope import AnyScope
from tests.real_kafka import RealKafka

IO_S = 0.001
_TASKS, _TASK_S = 256, 0.01


@dataclass(frozen=True, slots=True)
class Unit:
    """What is handled in its order: partitions, or the keys in them."""

    scope: AnyScope
    name: str
    partitions: int
    keys: int = 0

    def number(self, message: Message) -> int:
        """Of the partition, or of the key."""
        return int(message.key() or b"0") if self.keys else message.partition() or 0


BY_KEY = Unit("key", "keys", 4, 10_000)
_UNITS = (Unit("partition", "partitions", 32), BY_KEY)


def run(kafka: RealKafka, scale: Scale) -> Result:
    """Ours and the plain ones in turn, with handlers that wait for I/O, and that do nothing."""
    figures = [figure for unit in _UNITS for figure in _of_unit(kafka, scale, unit)]
    figures += _of_tasks(kafka, scale, BY_KEY)
    note = (
        "plain threads and tasks commit nothing, retry nothing and hold any number of messages in "
        "memory; plain tasks keep no order"
    )
    return Result(tuple(figures), (note,))


def _of_unit(kafka: RealKafka, scale: Scale, unit: Unit) -> Iterator[Figure]:
    waiting, doing_nothing = min(scale.messages, 100_000), scale.messages
    for threads, share in ((8, 0.8), (32, 0.7)):
        of_us, of_plain = _rates(kafka, scale.rounds, waiting, threads, IO_S, unit)
        best = threads / IO_S
        parts = tuple(rate / best for rate in of_us)
        what = f"{unit.name}, {threads} threads"
        yield Figure(f"ours, {what}, 1 ms of I/O", "messages/s", of_us)
        yield Figure(f"plain threads, {what}, 1 ms of I/O", "messages/s", of_plain)
        yield Figure(f"ours / threads per ms, {what}", "times", parts, Target("at least", share))
    of_us, of_plain = _rates(kafka, scale.rounds, doing_nothing, 8, 0.0, unit)
    target = Target("at least", 60_000)
    yield Figure(f"ours, {unit.name}, 8 threads, no-op handler", "messages/s", of_us, target)
    yield Figure(f"plain threads, {unit.name}, 8, no-op handler", "messages/s", of_plain)


def _of_tasks(kafka: RealKafka, scale: Scale, unit: Unit) -> Iterator[Figure]:
    messages = min(scale.messages, 100_000)
    pair = (ours_in_tasks_s, plain_tasks_s)
    of_us, of_plain = _rates(kafka, scale.rounds, messages, _TASKS, _TASK_S, unit, pair)
    shares = tuple(ours / plain for ours, plain in zip(of_us, of_plain, strict=True))
    what = f"{unit.name}, {_TASKS} tasks"
    yield Figure(f"ours, {what}, 10 ms of I/O", "messages/s", of_us)
    yield Figure(f"plain tasks, {what}, 10 ms of I/O", "messages/s", of_plain)
    yield Figure(f"ours / plain tasks, {what}", "times", shares, Target("at least", 0.8))


def ours_s(
    config: Config, topic: str, messages: int, threads: int, io_s: float, unit: Unit
) -> float:
    """Seconds from the first handled message to the last."""
    counted = _Counted(messages, io_s)
    with linear_consumer(config, topic, scope=unit.scope, concurrency=threads) as consumer:
        counted.at_end = consumer.stop
        consumer.run(counted)
    return counted.elapsed_s


def plain_s(
    config: Config, topic: str, messages: int, threads: int, io_s: float, unit: Unit
) -> float:
    """The same, with a queue for each thread, and the partitions or keys dealt out to them."""
    counted = _Counted(messages, io_s)
    queues = [SimpleQueue[Message | None]() for _ in range(threads)]
    workers = [threading.Thread(target=_work, args=(queue, counted)) for queue in queues]
    for worker in workers:
        worker.start()
    consumer = bare_consumer(config, topic)
    while not counted.ended.is_set():
        for message in consumer.consume(500, 0.05):
            queues[unit.number(message) % threads].put(message)
    consumer.close()
    for queue, worker in zip(queues, workers, strict=True):
        queue.put(None)
        worker.join()
    return counted.elapsed_s


def ours_in_tasks_s(
    config: Config, topic: str, messages: int, tasks: int, io_s: float, unit: Unit
) -> float:
    """The same as `ours_s` with `run_async`."""
    counted = _Counted(messages, io_s)
    with warnings.catch_warnings():
        # So many keys, and all that may be held, would not fit into a note.
        warnings.simplefilter("ignore")
        consumer = linear_consumer(config, topic, scope=unit.scope, concurrency=tasks)
    with consumer:
        counted.at_end = consumer.stop
        asyncio.run(consumer.run_async(counted.awaited))
    return counted.elapsed_s


def plain_tasks_s(
    config: Config, topic: str, messages: int, tasks: int, io_s: float, _: Unit
) -> float:
    """A task for each message, at most so many at once, in no order."""
    return asyncio.run(_plain_tasks_s(config, topic, messages, tasks, io_s))


async def _plain_tasks_s(
    config: Config, topic: str, messages: int, tasks: int, io_s: float
) -> float:
    counted, free = _Counted(messages, io_s), asyncio.Semaphore(tasks)
    running = set[asyncio.Task[None]]()

    async def handle(message: Message) -> None:
        await counted.awaited(message)
        free.release()

    consumer = bare_consumer(config, topic)
    while not counted.ended.is_set():
        for message in await asyncio.to_thread(consumer.consume, 500, 0.05):
            await free.acquire()
            task = asyncio.create_task(handle(message))
            running.add(task)
            task.add_done_callback(running.discard)
    consumer.close()
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
        self._begin()
        if self._io_s:
            time.sleep(self._io_s)
        self._end()

    async def awaited(self, _: Message) -> None:
        self._begin()
        await asyncio.sleep(self._io_s)
        self._end()

    def _begin(self) -> None:
        if not self._begun_s:
            self._begun_s = time.perf_counter()

    def _end(self) -> None:
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
    kafka: RealKafka,
    rounds: int,
    messages: int,
    threads: int,
    io_s: float,
    unit: Unit,
    pair: tuple[Callable[..., float], Callable[..., float]] = (ours_s, plain_s),
) -> tuple[tuple[float, ...], tuple[float, ...]]:
    ours, plain = pair
    topic = filled_topic(kafka, messages, unit.partitions, keys=unit.keys)

    def rate(contestant: Callable[..., float], more: Config) -> float:
        config = config_of_new_group(kafka, **more)
        return messages / in_child(contestant, config, topic, messages, threads, io_s, unit)

    rates = [(rate(ours, {}), rate(plain, ALIKE)) for _ in range(rounds)]
    return tuple(of_us for of_us, _ in rates), tuple(of_plain for _, of_plain in rates)
