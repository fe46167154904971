"""The configuration of a consumer, checked at construction."""

import os
import random
import socket
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any
from uuid import uuid4

from linear_retry.consumer.partitions.commit_notes import OnUnreadableNote
from linear_retry.consumer.settings.by_key import ByKey
from linear_retry.consumer.settings.dead_letters import DeadLetters
from linear_retry.consumer.settings.inbox import Inbox
from linear_retry.consumer.settings.line import Recovery, Retries
from linear_retry.journal.entry import Process
from linear_retry.journal.journal import Journal, JournalContext
from linear_retry.kafka import AdminClient, Consumer, Producer
from linear_retry.kafka.consumer.settings import ConsumerSettings
from linear_retry.records.lineage import Line
from linear_retry.retry.clock import Clock, SystemClock
from linear_retry.retry.decision import RetrySettings


@dataclass(frozen=True, slots=True)
class Dependencies:
    """A consumer's outside dependencies: tests pass a fake Kafka, a clock and an rng."""

    consumer: Callable[..., Any] = Consumer
    producer: Callable[..., Any] = Producer
    admin: Callable[..., Any] = AdminClient
    clock: Clock = field(default_factory=SystemClock)
    rng: Callable[[], float] = random.random

    def journal_context(
        self,
        settings: ConsumerSettings,
        instance: str,
        process: Process,
        close_timeout_s: float,
        group_id: str | None = None,
    ) -> JournalContext:
        """Identifies the consumer whose events a journal records."""
        return JournalContext(
            group=group_id or settings.group_id,
            instance=instance,
            member=settings.static_member or instance,
            process=process,
            connection=settings.connection,
            close_timeout_s=close_timeout_s,
            now_s=self.clock.now_s,
            utc_ms=self.clock.utc_ms,
            producer=self.producer,
        )


@dataclass(frozen=True, slots=True)
class ConsumerConfig:
    settings: ConsumerSettings
    producer_config: Mapping[str, Any]
    topics: Sequence[str]
    own_topics: frozenset[str]
    line: Line
    retries: Retries | None
    recovery: Recovery | None
    reads_retries: bool
    retry: RetrySettings
    by_key: ByKey | None
    concurrency: int
    dead_letters: DeadLetters | None
    journals: Sequence[Journal]
    control: str | None
    strategy_total_s: float
    answer_within_s: float
    start_timeout_s: float
    close_timeout_s: float
    group_pause_max_s: float
    group_breaker_max_s: float | None
    """How long another member may attempt for all of the group; None: each for itself."""
    remember_failures: bool
    on_unreadable_note: OnUnreadableNote
    inbox: Inbox | None
    dependencies: Dependencies
    process: Process
    instance: str = field(default_factory=lambda: str(uuid4()))
    """A unique id for each consumer object."""

    @property
    def has_lanes(self) -> bool:
        """Whether messages are attempted by workers, each in its lane."""
        return self.concurrency > 1 or self.by_key is not None

    @property
    def returns(self) -> bool:
        """Whether what is read is returned to its source, and not handled."""
        return self.reads_retries and self.retries is not None and self.retries.back_to_source

    @property
    def member(self) -> str:
        """The consumer's name in the journal, in health and in answers."""
        return self.settings.static_member or self.instance

    @property
    def admin_config(self) -> dict[str, Any]:
        """librdkafka's keys for admin queries, with the consumer's isolation level."""
        isolation = self.settings.config.get("isolation.level")
        extra = {} if isolation is None else {"isolation.level": isolation}
        return {**self.settings.connection, **extra}


def this_process(config: Mapping[str, Any]) -> Process:
    """The current process, with the `client.id` from librdkafka's configuration."""
    client_id = config.get("client.id") or "rdkafka"
    return Process(socket.gethostname(), os.getpid(), str(client_id))
