"""The demo of retry topics: a live line, its retry line, a bank that is down, and the proof."""

from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from typing import Any, Protocol

from linear_retry.consumer.dead_letters.retry_topics import RetryTopics
from linear_retry.consumer.dead_letters.scheduler import Scheduler
from linear_retry.consumer.dead_letters.settings import DeadLetters
from linear_retry.consumer.linear_consumer import LinearConsumer
from linear_retry.demo.display.watching import MakeDisplay, watching, without_log_lines
from linear_retry.demo.evidence import Verdict, offsets_of
from linear_retry.demo.off_the_line.proof import Evidence, prove
from linear_retry.demo.off_the_line.story import BANK_DOWN_FOR, LATENCY_S, retries_of
from linear_retry.demo.payments import REJECTED, TRANSIENT, Payments
from linear_retry.demo.record import Record
from linear_retry.demo.run import (
    DemoTopics,
    Extra,
    cluster_topics,
    consumer_config,
    embedded_topics,
    noting_progress,
    produce,
)
from linear_retry.demo.service import PaymentService
from linear_retry.events import DeadLettered
from linear_retry.kafka.topics.reader import TopicReader
from linear_retry.records.dead_letter import parse
from linear_retry.records.topics.retry_topics import retry_group
from linear_retry.testing.event_log import AttemptFinished, Entry, EventEmitted


def topics_on(
    bootstrap: str | None, complain: Callable[[str], object]
) -> AbstractContextManager[DemoTopics]:
    """The topics, on an embedded broker or a cluster.

    Retry topics need LogAppendTime, which the embedded broker does not have: there records are
    due by the producer's clock, and that is the same machine's. Nor does it describe its topics to
    the check at the start, which is then left out.
    """
    if bootstrap is None:
        return embedded_topics(retries_of("orders").topics)
    return cluster_topics(bootstrap, complain, _extra)


def _extra(topics: DemoTopics) -> Extra:
    return Extra(
        retries_of(topics.topic).topics,
        (retry_group(topics.group_id),),
        {"message.timestamp.type": "LogAppendTime"},
    )


class Companion(Protocol):
    """What runs beside the live line, and brings messages back."""

    def run(self) -> None: ...

    def stop(self) -> None: ...


@dataclass(frozen=True, slots=True)
class _RetryLine:
    consumer: LinearConsumer
    handler: Callable[[Any], object]

    def run(self) -> None:
        with self.consumer:
            self.consumer.run(self.handler)

    def stop(self) -> None:
        self.consumer.stop()


def run(topics: DemoTopics, make_display: MakeDisplay) -> tuple[Verdict, ...]:
    """Sends failed orders to retry topics, which a second line reads."""
    retries = retries_of(topics.topic)

    def retry_line(record: Record, payments: Payments) -> Companion:
        handler = record.log.handler("retry", payments.pay)
        return _RetryLine(_consumer(topics, record, "retry", retries), handler)

    return play(topics, retries, retry_line, make_display)


def play(
    topics: DemoTopics,
    retries: RetryTopics | Scheduler,
    make_companion: Callable[[Record, Payments], Companion],
    make_display: MakeDisplay,
    latency_s: float = LATENCY_S,
) -> tuple[Verdict, ...]:
    """Produces, consumes until all is paid or dead-lettered, and proves the promises.

    Ctrl-C closes the line and its companion; the `KeyboardInterrupt` then has a note that says how
    many orders were done.
    """
    record = Record(produce(topics))
    for partition, offsets in offsets_of(record.orders).items():
        record.log.appended(partition, offsets)
    with (
        PaymentService((), REJECTED, down_for=BANK_DOWN_FOR, latency_s=latency_s) as service,
        Payments(service.url, record.requests.append) as payments,
        without_log_lines(),
    ):
        live = _consumer(topics, record, "live", [topics.topic], on_exhausted=retries)
        _consume(live, make_companion(record, payments), payments, record, make_display)
        receipts = service.receipts
    letters = TopicReader({"bootstrap.servers": topics.bootstrap}).read_all(topics.dead_letters)
    return prove(
        Evidence(
            orders=record.orders,
            log=record.log.entries,
            receipts=receipts,
            letters=tuple(parse(one.headers, one.key, one.value) for one in letters),
            retries=retries,
        )
    )


def _consume(
    live: LinearConsumer,
    companion: Companion,
    payments: Payments,
    record: Record,
    make_display: MakeDisplay,
) -> None:
    with live:
        _when_settled(record, live.stop)
        with (
            noting_progress(record),
            _beside(companion, live.stop),
            watching(make_display(record, lambda: live.circuits), live.stop),
        ):
            for attempt in live:
                with attempt as message, record.log.attempting("live", message):
                    payments.pay(message)


def _consumer(
    topics: DemoTopics, record: Record, name: str, reads: list[str] | RetryTopics, **more: Any
) -> LinearConsumer:
    return LinearConsumer(
        consumer_config(topics),
        reads,
        strategy=[],
        transient=TRANSIENT,
        # No limit, as for the retry topics: one counts what goes to either.
        dead_letters=DeadLetters(topics.dead_letters, limit=None),
        listeners=(record.log.listener(name),),
        **more,
    )


@contextmanager
def _beside(companion: Companion, stop: Callable[[], object]) -> Iterator[None]:
    """Runs it during the block; what ends it early ends the block, and is raised.

    A thread is enough: what both lines do is to wait for the service. And unlike `run_together`,
    it leaves Ctrl-C to the command.
    """
    with ThreadPoolExecutor(1, "companion") as pool:
        running = pool.submit(companion.run)
        running.add_done_callback(lambda _: stop())
        try:
            yield
        finally:
            companion.stop()
        running.result()


def _when_settled(record: Record, then: Callable[[], object]) -> None:
    """Calls `then` when each order is paid or dead-lettered, on whichever line."""
    left = len(record.orders)

    def watch(entry: Entry) -> None:
        nonlocal left
        match entry:
            case AttemptFinished(outcome="done") | EventEmitted(event=DeadLettered()):
                left -= 1
                if left == 0:
                    then()

    record.log.watch(watch)
