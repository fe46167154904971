"""Checks the configuration of a stream, and builds its runner."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any
from uuid import uuid4

from linear_retry.consumer.config.checks import (
    Transient,
    answer_within_s,
    check_listeners,
    check_own_topics,
    is_transient,
    policy_of,
)
from linear_retry.consumer.config.consumer_config import Dependencies, this_process
from linear_retry.consumer.config.values import as_strategy
from linear_retry.consumer.dead_letters.plain import PlainDelivery
from linear_retry.consumer.dead_letters.publisher import (
    AckWait,
    DeadLetterPublisher,
    Stop,
)
from linear_retry.consumer.dead_letters.settings import DeadLetters
from linear_retry.consumer.micro_batches.runner import MicroBatchRunner
from linear_retry.consumer.monitoring.client_log import with_log
from linear_retry.consumer.monitoring.monitor import Monitor, bind_listeners
from linear_retry.errors import ConfigurationError
from linear_retry.events import Listener
from linear_retry.journal.journal import Journal
from linear_retry.kafka.consumer.settings import ConsumerSettings, consumer_settings
from linear_retry.kafka.producers.acknowledged import AcknowledgedProducer
from linear_retry.kafka.producers.settings import producer_config
from linear_retry.retry.circuits import Circuits
from linear_retry.retry.policy import OnExhausted, OnPermanent, RetrySettings
from linear_retry.strategy.delays import Element
from linear_retry.strategy.strategy import Strategy

CLOSE_TIMEOUT_S = 10.0
_NOBODY = {"group.id": "foreach_batch", "bootstrap.servers": "nobody asks it"}


def micro_batch_runner(
    config: Mapping[str, Any],
    *,
    strategy: Strategy | Sequence[Element],
    transient: Transient,
    dead_letters: str | DeadLetters | None,
    on_exhausted: OnExhausted,
    on_permanent: OnPermanent,
    listeners: Sequence[Listener],
    dependencies: Dependencies,
) -> MicroBatchRunner:
    """Checks everything and builds the runner, without I/O. Raises `ConfigurationError`."""
    policy, letters = policy_of(as_strategy(strategy), on_exhausted, on_permanent, dead_letters)
    listeners = check_listeners(listeners)
    journals = [listener for listener in listeners if isinstance(listener, Journal)]
    check_own_topics(letters, journals)
    retry_settings = RetrySettings(policy, is_transient(transient), "consumer", dependencies.rng)
    settings = _settings(with_log(config), is_used=letters is not None or bool(journals))
    emit = Monitor(listeners, dependencies.clock.utc_ms).emit
    publisher = None if letters is None else _publisher(letters, settings, dependencies, emit)
    process = this_process(settings.config)
    context = dependencies.journal_context(settings, str(uuid4()), process, CLOSE_TIMEOUT_S)
    bind_listeners(listeners, context)
    return MicroBatchRunner(
        retry_settings,
        Circuits(settings.group_id),
        emit,
        dependencies.clock,
        settings.group_id,
        publisher,
        journals,
    )


def _settings(config: Mapping[str, Any], *, is_used: bool) -> ConsumerSettings:
    """The Kafka settings; without letters or a journal no broker is needed."""
    return consumer_settings(config if is_used else {**_NOBODY, **config})


def _publisher(
    letters: DeadLetters, settings: ConsumerSettings, dependencies: Dependencies, emit: Listener
) -> Callable[[Stop], DeadLetterPublisher]:
    if letters.transactional:
        raise ConfigurationError(
            "DeadLetters transactional=True: a query's progress is in its checkpoint, which cannot "
            "be committed with a letter; leave it out, and deduplicate by retry-id"
        )
    keys = producer_config(settings, letters.config)
    producer = AcknowledgedProducer(letters.topic, keys, dependencies.producer)

    def publisher(stop: Stop) -> DeadLetterPublisher:
        wait = AckWait(dependencies.clock, {}, stop, answer_within_s=answer_within_s(keys))
        return DeadLetterPublisher(PlainDelivery(producer, wait), wait, letters.oversized, emit)

    return publisher
