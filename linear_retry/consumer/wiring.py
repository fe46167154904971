"""How is a consumer put together?"""

from __future__ import annotations

import random
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any
from uuid import uuid4

from linear_retry.consumer.config.topics import is_pattern
from linear_retry.consumer.dead_letters.ack_wait import AckWait
from linear_retry.consumer.dead_letters.plain import PlainDelivery
from linear_retry.consumer.dead_letters.publisher import DeadLetterDelivery, DeadLetterPublisher
from linear_retry.consumer.dead_letters.settings import DeadLetters
from linear_retry.consumer.dead_letters.transactional import TransactionalDelivery
from linear_retry.consumer.loop import Loop
from linear_retry.consumer.monitoring.counters import Counters
from linear_retry.consumer.operations.control_topic import ControlTopicFollower
from linear_retry.consumer.operations.operator_actions import OperatorActions
from linear_retry.consumer.operations.remote_commands import RemoteCommands
from linear_retry.consumer.operations.requests import Requests
from linear_retry.consumer.partitions.assignment import Assignment
from linear_retry.consumer.partitions.delivery_filter import DeliveryFilter
from linear_retry.consumer.partitions.flow_control import FlowControl
from linear_retry.consumer.partitions.lag import Lag
from linear_retry.consumer.partitions.offsets import Offsets
from linear_retry.consumer.partitions.read_ahead import ReadAhead
from linear_retry.consumer.partitions.rebalance import Rebalance
from linear_retry.consumer.runners.stop import StopFlag
from linear_retry.consumer.session.shutdown import close
from linear_retry.consumer.session.startup import (
    Brokers,
    RetentionCheck,
    missing_rights,
    missing_topics,
)
from linear_retry.consumer.state import Parts
from linear_retry.consumer.target import ConsumerTarget
from linear_retry.consumer.watchdogs.broker import BrokerWatchdog, Reclaiming
from linear_retry.consumer.watchdogs.client_replacement import ClientReplacement
from linear_retry.consumer.watchdogs.instance_id import InstanceIdWait
from linear_retry.consumer.watchdogs.stalled_partition import StalledPartitionWatchdog
from linear_retry.consumer.watchdogs.unreadable_batches import UnreadableBatches
from linear_retry.errors import BrokerError
from linear_retry.events import Event
from linear_retry.journal.journal import Journal, JournalContext
from linear_retry.kafka import AdminClient, Consumer, Message, Producer
from linear_retry.kafka.consumer.client import Client
from linear_retry.kafka.consumer.committed import Committed
from linear_retry.kafka.consumer.settings import ConsumerSettings, connection
from linear_retry.kafka.producers.acknowledged import AcknowledgedProducer
from linear_retry.kafka.producers.journal import JournalProducer, journal_config
from linear_retry.kafka.producers.transactional import TransactionalProducer
from linear_retry.kafka.topics.admin import Admin
from linear_retry.kafka.topics.batch_end import BatchEnd
from linear_retry.kafka.topics.tail import TopicTail
from linear_retry.log import log_start
from linear_retry.records.dead_letter import resolutions_topic
from linear_retry.records.process import Process
from linear_retry.retry.circuits import Circuits
from linear_retry.retry.clock import Clock, SystemClock
from linear_retry.retry.settings import RetrySettings

_LAST_ANSWERS_S = 1.0
_CONTROL_PATIENCE_S = 5.0


@dataclass(frozen=True, slots=True)
class Dependencies:
    """What a consumer needs of the world: tests bring a fake Kafka, a virtual clock, fixed dice."""

    consumer: Callable[..., Any] = Consumer
    producer: Callable[..., Any] = Producer
    admin: Callable[..., Any] = AdminClient
    clock: Clock = field(default_factory=SystemClock)
    dice: Callable[[], float] = random.random

    def journal_context(
        self, settings: ConsumerSettings, instance: str, process: Process, close_timeout_s: float
    ) -> JournalContext:
        """Whose events the journal has."""
        return JournalContext(
            group=settings.group_id,
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
    """Everything that was checked at construction."""

    settings: ConsumerSettings
    producer_config: Mapping[str, Any]
    topics: Sequence[str]
    retry: RetrySettings
    dead_letters: DeadLetters | None
    journals: Sequence[Journal]
    control: str | None
    strategy_total_s: float
    answer_within_s: float
    start_timeout_s: float
    close_timeout_s: float
    dependencies: Dependencies
    process: Process
    instance: str = field(default_factory=lambda: str(uuid4()))
    """One consumer's life."""

    @property
    def member(self) -> str:
        """What journal, health and answers call it."""
        return self.settings.static_member or self.instance


class Wiring:
    """The parts of one running consumer, joined. Made by the owner thread: here I/O begins."""

    def __init__(
        self,
        plan: ConsumerConfig,
        circuits: Circuits[Message],
        emit: Callable[[Event], None],
        stop: StopFlag,
        counters: Counters | None = None,
    ) -> None:
        """Raises `ConfigurationError` where librdkafka refuses a key."""
        self._plan = plan
        self._stop = stop

        def tell(event: Event) -> None:
            emit(event)
            self.commands.hear(event)  # last: an answer is about what is on record

        self.parts = parts = _parts(plan, circuits, tell, counters or Counters())
        flow_control = FlowControl(parts)
        self.requests = Requests()
        batch_end = BatchEnd(plan.settings.config, plan.dependencies.consumer)
        unreadable = UnreadableBatches(parts, flow_control, self.requests, batch_end)
        delivery_filter = DeliveryFilter(parts, flow_control, unreadable)
        rebalance = Rebalance(parts, flow_control, delivery_filter, _own_topics(plan))
        parts.client.set_listener(rebalance)
        self._admin = Admin(_admin_config(plan), plan.dependencies.admin)
        self.lag = _lag(plan, parts)
        self._retention = RetentionCheck(parts, self._admin, plan.strategy_total_s)
        self.letters = self._letters(flow_control) if plan.dead_letters else None
        operator_actions = OperatorActions(parts, self.requests, plan.retry.policy)
        self.commands = RemoteCommands(
            parts,
            self.requests,
            operator_actions,
            plan.member,
            gives_up=self.letters is not None,
            has_limit=plan.retry.policy.letter_limit is not None,
        )
        self._follower = _follower(plan, self.commands)
        target = ConsumerTarget(parts, plan.retry, flow_control, self.letters, operator_actions)
        stalled_partitions = StalledPartitionWatchdog(parts, flow_control, self._admin)
        client_replacement = ClientReplacement(
            parts,
            delivery_filter,
            rebalance.drop,
            InstanceIdWait(parts, self._admin, plan.start_timeout_s),
        )
        broker_watchdog = BrokerWatchdog(
            parts, self._admin, delivery_filter.report, client_replacement.renew, plan.topics
        )
        self.loop = Loop(
            parts,
            flow_control,
            delivery_filter,
            target,
            operator_actions,
            stop,
            chores=(
                target,
                Reclaiming(parts, flow_control, broker_watchdog),
                stalled_partitions,
                unreadable,
                client_replacement,
                broker_watchdog,
                self._retention,
                self.commands,
            ),
        )

    def start(self) -> None:
        """Look whether every topic is there, then join the group.

        Raises `BrokerError` and `ConfigurationError`. Does nothing where a stop was asked for.
        """
        plan, parts = self._plan, self.parts
        brokers = Brokers(parts, plan.start_timeout_s, lambda: self._stop.asked)
        counts = brokers.topics()
        ours = self._letter_topics(brokers)
        if self._stop.asked:
            return
        missing_topics(counts | ours, [*plan.topics, *ours])
        self._check_rights(brokers, list(ours))
        for journal in plan.journals:
            journal.prepare(counts)
        log_start(plan.settings.group_id, plan.member, plan.process)
        self._retention.ask(plan.topics)
        parts.client.subscribe(list(plan.topics))
        if self._follower is not None:
            self._follower.start()

    def _letter_topics(self, brokers: Brokers) -> dict[str, int]:
        """Where letters go, with its partitions: 0 where it is not there. It may be elsewhere."""
        letters = self.letters
        if letters is None or self._stop.asked:
            return {}
        letters.prepare()
        return {letters.topic: brokers.ask(self._plan.producer_config, letters.partitions) or 0}

    def _check_rights(self, brokers: Brokers, ours: Sequence[str]) -> None:
        """Looked at once, for what a start can know: a right may be taken away at any time."""
        named = [topic for topic in self._plan.topics if not is_pattern(topic)]
        reads = brokers.rights(self._admin, named)
        writes = brokers.rights(self._letters_admin(), ours)
        # The handle has learnt who leads these topics, and would go by that for 15 minutes: the
        # watchdog of stalled partitions would not see those whose broker is down just now.
        self._admin.close()
        problems = [*missing_rights(reads, "READ"), *missing_rights(writes, "WRITE")]
        if problems:
            raise BrokerError("\n".join(problems))

    def _letters_admin(self) -> Admin:
        """Who asks as the sender of letters; as a rule that is who asks as the consumer."""
        keys = connection(self._plan.producer_config)
        if keys == self._plan.settings.connection:
            return self._admin
        return Admin(keys, self._plan.dependencies.admin)

    def close(self, *, commit: bool, timeout_s: float) -> None:
        """Bounded; see `closing`. The letters come first: they may have something to say yet."""
        give_up_at_s = self.parts.clock.now_s() + timeout_s
        self.requests.close()
        try:
            if self.letters is not None:
                self.letters.close()
        finally:
            left_s = give_up_at_s - self.parts.clock.now_s()
            try:
                close(self.parts, commit=commit, timeout_s=left_s)
            finally:
                if self._follower is not None:
                    left_s = give_up_at_s - self.parts.clock.now_s()
                    self._follower.close(min(max(left_s, 0.1), _LAST_ANSWERS_S))
                self._admin.close()
                self.lag.close()

    def _letters(self, flow_control: FlowControl) -> DeadLetterPublisher:
        plan = self._plan
        if plan.dead_letters is None:
            raise AssertionError("no dead-letter topic")
        wait = AckWait(
            self.parts,
            answer_within_s=plan.answer_within_s,
            is_stopping=lambda: self._stop.should_not_block,
        )
        of_kind = (
            self._transactional_delivery
            if plan.dead_letters.transactional
            else self._plain_delivery
        )
        delivery = of_kind(plan.dead_letters.topic, wait, flow_control)
        return DeadLetterPublisher(self.parts, delivery, plan.dead_letters.oversized)

    def _plain_delivery(self, topic: str, wait: AckWait, _: FlowControl) -> DeadLetterDelivery:
        plan = self._plan
        return PlainDelivery(
            AcknowledgedProducer(topic, plan.producer_config, plan.dependencies.producer), wait
        )

    def _transactional_delivery(
        self, topic: str, wait: AckWait, flow_control: FlowControl
    ) -> DeadLetterDelivery:
        plan = self._plan
        # One that is shared by members would have each fence the others, for ever.
        own_id = {"transactional.id": f"{plan.settings.group_id}-{uuid4()}"}
        config = {**plan.producer_config, **own_id}
        return TransactionalDelivery(
            self.parts,
            TransactionalProducer(topic, config, plan.dependencies.producer),
            wait,
            flow_control,
            transaction_timeout_s=int(config["transaction.timeout.ms"]) / 1000,
            start_timeout_s=plan.start_timeout_s,
        )


def _parts(
    plan: ConsumerConfig,
    circuits: Circuits[Message],
    emit: Callable[[Event], None],
    counters: Counters,
) -> Parts:
    clock, settings = plan.dependencies.clock, plan.settings
    transactional = plan.dead_letters is not None and plan.dead_letters.transactional
    client = Client(settings, plan.dependencies.consumer, transactional=transactional)
    assignment = Assignment()
    read_ahead = ReadAhead(
        client,
        clock,
        lambda: assignment.epoch,
        max_poll_interval_s=settings.max_poll_interval_s,
        session_timeout_s=settings.session_timeout_s,
    )
    return Parts(
        settings, client, clock, assignment, Offsets(), circuits, read_ahead, emit, counters
    )


def _own_topics(plan: ConsumerConfig) -> frozenset[str]:
    topic = plan.dead_letters.topic if plan.dead_letters else None
    letters = {topic, resolutions_topic(topic)} if topic else set()
    control = {plan.control} if plan.control else set()
    return frozenset(letters | control | {journal.topic for journal in plan.journals})


def _follower(plan: ConsumerConfig, commands: RemoteCommands) -> ControlTopicFollower | None:
    """Clients are made by its thread."""
    topic, clock = plan.control, plan.dependencies.clock
    if topic is None:
        return None
    keys = {"log_level": 0, **plan.settings.connection}
    return ControlTopicFollower(
        topic,
        plan.settings.group_id,
        commands,
        clock,
        lambda since_ms: TopicTail(keys, topic, since_ms, _CONTROL_PATIENCE_S),
        # What it is for journals it is for answers: nobody waits for it, and it mends itself.
        JournalProducer(journal_config(keys, {}), clock.now_s, plan.dependencies.producer),
    )


def _lag(plan: ConsumerConfig, parts: Parts) -> Lag:
    """With handles of its own: its questions are asked by other threads."""
    settings = plan.settings
    edges = Admin(_admin_config(plan), plan.dependencies.admin)
    starts = Committed(settings.connection, settings.group_id, plan.dependencies.consumer)
    return Lag(settings, parts.assignment, parts.offsets, edges, starts)


def _admin_config(plan: ConsumerConfig) -> dict[str, Any]:
    shared = dict(plan.settings.connection)
    isolation = plan.settings.config.get("isolation.level")
    return shared | ({} if isolation is None else {"isolation.level": isolation})
