"""Who reads: the bare loop that a careful person writes by hand, and ours."""

import logging
from collections.abc import Callable, Mapping
from time import monotonic
from typing import Any, TypeAlias

from confluent_kafka import Consumer, KafkaException, Message, TopicPartition

from linear_retry import ByKey, DeadLetters, Event, LinearConsumer, Strategy
from linear_retry.consumer.settings.consumer_config import Dependencies
from linear_retry.scope import AnyScope

Config: TypeAlias = Mapping[str, Any]
Handler: TypeAlias = Callable[[Message], object]

COMMIT_EVERY_S = 1.0
ALIKE = {"fetch.queue.backoff.ms": 5, "fetch.wait.max.ms": 100}
"""What `LinearConsumer` sets by itself: a bare loop with these differs in nothing but the loop."""


def bare_consumer(config: Config, topic: str) -> Consumer:
    """Subscribed, at least once, as the loops below need it."""
    consumer = Consumer({**config, "enable.auto.commit": False, "enable.auto.offset.store": False})
    consumer.subscribe([topic])
    return consumer


def bare_batches(
    config: Config, topic: str, handler: Handler, finished: Callable[[], bool]
) -> None:
    """`consume(500, 0.5)`, errors raised, offsets stored per batch, committed once a second."""
    consumer, commit_at_s = bare_consumer(config, topic), 0.0
    while not finished():
        messages = consumer.consume(500, 0.5)
        for message in messages:
            error = message.error()
            if error is not None:
                raise KafkaException(error)
            handler(message)
        _store(consumer, topic, messages)
        if messages and monotonic() >= commit_at_s:
            consumer.commit(asynchronous=True)
            commit_at_s = monotonic() + COMMIT_EVERY_S
    consumer.close()


def bare_polls(config: Config, topic: str, handler: Handler, finished: Callable[[], bool]) -> None:
    """`poll(1.0)`, message by message: the loop of most tutorials."""
    consumer = bare_consumer(config, topic)
    while not finished():
        message = consumer.poll(1.0)
        if message is None:
            continue
        error = message.error()
        if error is not None:
            raise KafkaException(error)
        handler(message)
        consumer.store_offsets(message)
    consumer.close()


def linear_consumer(
    config: Config,
    topic: str,
    *,
    delays_s: list[float] | None = None,
    dead_letters: str | None = None,
    scope: AnyScope | ByKey = "consumer",
    concurrency: int = 1,
    transactional: bool = False,
    listeners: tuple[Callable[[Event], object], ...] = (),
    dependencies: Dependencies | None = None,
) -> LinearConsumer:
    """Ours. `OSError` is transient; without a dead-letter topic, giving up stops it.

    With `concurrency`, partitions or keys are handled side by side.
    """
    discard_logs()
    give_up: Any = "stop" if dead_letters is None else "dead-letter"
    letters = None
    if dead_letters is not None:
        letters = DeadLetters(
            dead_letters, {"log_level": 0}, transactional=transactional, limit=None
        )
    return LinearConsumer(
        config,
        [topic],
        strategy=Strategy(delays_s or [1.0]),
        transient=OSError,
        dead_letters=letters,
        on_exhausted=give_up,
        on_permanent=give_up,
        scope=scope,
        concurrency=concurrency,
        listeners=listeners,
        _dependencies=dependencies,
    )


def discard_logs() -> None:
    """Log lines are made, as in any program, but written nowhere."""
    logger = logging.getLogger("linear_retry")
    logger.addHandler(logging.NullHandler())
    logger.propagate = False


def _store(consumer: Consumer, topic: str, messages: list[Message]) -> None:
    ends = {message.partition(): message.offset() for message in messages}
    consumer.store_offsets(
        offsets=[
            TopicPartition(topic, partition or 0, (offset or 0) + 1)
            for partition, offset in ends.items()
        ]
    )
