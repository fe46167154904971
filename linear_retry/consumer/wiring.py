"""Joins the parts of a running consumer."""

from collections.abc import Callable
from uuid import uuid4

from linear_retry.consumer.config.consumer_config import ConsumerConfig
from linear_retry.consumer.dead_letters.publisher import (
    AckWait,
    DeadLetterDelivery,
    DeadLetterPublisher,
    PlainDelivery,
)
from linear_retry.consumer.dead_letters.transactional import TransactionalDelivery
from linear_retry.consumer.loop import Chore, Loop
from linear_retry.consumer.monitoring.monitor import Monitor
from linear_retry.consumer.operations.control_topic import ControlTopicFollower
from linear_retry.consumer.operations.operator_actions import OperatorActions
from linear_retry.consumer.operations.remote_commands import RemoteCommands
from linear_retry.consumer.operations.requests import Requests
from linear_retry.consumer.partitions.assignment import Assignment
from linear_retry.consumer.partitions.client_errors import ClientErrors
from linear_retry.consumer.partitions.commits import OffsetCommits
from linear_retry.consumer.partitions.flow_control import FlowControl
from linear_retry.consumer.partitions.lag import Lag
from linear_retry.consumer.partitions.offset_reset import OffsetReset
from linear_retry.consumer.partitions.offsets import Offsets
from linear_retry.consumer.partitions.polling import DeliveryFilter, OffsetCheck, Poller
from linear_retry.consumer.partitions.read_ahead import ReadAhead
from linear_retry.consumer.partitions.rebalance import Rebalance
from linear_retry.consumer.partitions.target import ConsumerTarget, Partitions
from linear_retry.consumer.runners.stop import StopFlag
from linear_retry.consumer.session.shutdown import Shutdown
from linear_retry.consumer.session.startup import Brokers, RetentionCheck, Startup
from linear_retry.consumer.watchdogs.broker import BrokerWatchdog
from linear_retry.consumer.watchdogs.client_replacement import ClientReplacement, InstanceIdWait
from linear_retry.consumer.watchdogs.stalled_partition import Reclaiming, StalledPartitionWatchdog
from linear_retry.consumer.watchdogs.unreadable_batches import (
    UnreadableBatches,
    UnreadableBatchWatchdog,
)
from linear_retry.events import Event
from linear_retry.kafka import Message
from linear_retry.kafka.consumer.client import Client
from linear_retry.kafka.consumer.committed import Committed
from linear_retry.kafka.producers.acknowledged import AcknowledgedProducer
from linear_retry.kafka.producers.journal import JournalProducer, journal_config
from linear_retry.kafka.producers.transactional import TransactionalProducer
from linear_retry.kafka.topics.admin import Admin
from linear_retry.kafka.topics.batch_end import BatchEnd
from linear_retry.kafka.topics.tail import TopicTail
from linear_retry.retry.circuits import Circuits

_LAST_ANSWERS_S = 1.0
_CONTROL_PATIENCE_S = 5.0


class Wiring:
    """The parts of one running consumer, joined. Made by the owner thread: here I/O begins."""

    def __init__(
        self,
        config: ConsumerConfig,
        circuits: Circuits[Message],
        monitor: Monitor,
        stop: StopFlag,
    ) -> None:
        """Raises `ConfigurationError` where librdkafka refuses a key."""
        self.config = config
        self._stop = stop

        settings, kafka = config.settings, config.dependencies
        self.clock = clock = kafka.clock
        self.circuits = circuits
        self.monitor = monitor
        transactional = config.dead_letters is not None and config.dead_letters.transactional
        self.client = client = Client(settings, kafka.consumer, transactional=transactional)
        self.assignment = assignment = Assignment(clock.now_s)
        self.offsets = offsets = Offsets()
        self.read_ahead = read_ahead = ReadAhead(
            client,
            clock,
            lambda: assignment.epoch,
            max_poll_interval_s=settings.max_poll_interval_s,
            session_timeout_s=settings.session_timeout_s,
        )
        self.requests = Requests()
        self._admin = Admin(config.admin_config, kafka.admin)
        self.lag = _lag(config, assignment, offsets)

        flow_control = FlowControl(client, assignment, offsets, circuits, read_ahead, monitor.emit)
        commits = OffsetCommits(client, clock.now_s, offsets, monitor.emit)
        errors = ClientErrors(client, clock.now_s, settings.group_id, flow_control, monitor.emit)
        unreadable = UnreadableBatches(clock, assignment, offsets, flow_control, monitor.emit)
        offset_check = OffsetCheck(assignment, offsets, read_ahead, flow_control, commits, errors)
        offset_reset = OffsetReset(
            client, assignment, offsets, flow_control, settings.reset, monitor.emit
        )
        delivery_filter = DeliveryFilter(
            assignment, read_ahead, offset_check, offset_reset, unreadable, errors
        )
        rebalance = Rebalance(flow_control, commits, errors, config.own_topics, monitor.emit)
        client.set_listener(rebalance)

        policy = config.retry.policy
        operator_actions = OperatorActions(
            circuits, clock, self.requests, policy, settings.group_id, monitor.emit
        )
        self.letters = self._letters(flow_control, monitor.emit) if config.dead_letters else None
        self.commands = RemoteCommands(
            config.member, assignment, operator_actions, monitor, gives_up=self.letters is not None
        )
        self._follower = _follower(config, self.commands)
        name_wait = InstanceIdWait(
            settings,
            clock.now_s,
            self._admin.ask_session_timeout_ms,
            config.start_timeout_s,
            monitor.emit,
        )
        replacement = ClientReplacement(
            client, assignment, errors, rebalance.drop, name_wait, monitor.emit
        )
        brokers = BrokerWatchdog(
            client,
            assignment,
            config.topics,
            self._admin.ask_brokers,
            errors.report,
            replacement.replace,
        )
        batch_end = BatchEnd(settings.config, kafka.consumer)
        batches = UnreadableBatchWatchdog(
            assignment, flow_control, unreadable, self.requests, batch_end
        )
        self._retention = RetentionCheck(self._admin, config.strategy_total_s, monitor.emit)
        self._shutdown = Shutdown(
            client, assignment, offsets, monitor.emit, leaves_group=settings.static_member is None
        )
        target = ConsumerTarget(
            settings.group_id,
            Partitions(assignment, offsets, read_ahead, flow_control, commits),
            self.letters,
            operator_actions,
            config.retry,
            monitor.emit,
        )
        stalled = StalledPartitionWatchdog(
            assignment, offsets, read_ahead, flow_control, self._admin.ask_end
        )
        chores: list[Chore] = [
            (offset_check, offset_check.tick),
            (commits, target.tick),
            (assignment, Reclaiming(assignment, flow_control, brokers).tick),
            (assignment, stalled.tick),
            (assignment, batches.reread),
            (assignment, assignment.plan_check),
            (self.requests, batches.consider_skips),
            (errors, replacement.tick),
            (brokers, brokers.tick),
            (self._retention, self._retention.tick),
            (self.commands, self.commands.tick),
        ]
        poller = Poller(assignment, read_ahead, flow_control, delivery_filter, batches)
        self.loop = Loop(poller, target, operator_actions, monitor, stop, chores)

    def start(self) -> None:
        """Look whether every topic is there, then join the group.

        Raises `BrokerError` and `ConfigurationError`. Does nothing where a stop was asked for.
        """
        config, now_s = self.config, self.clock.now_s
        brokers = Brokers(
            self.client, config.settings, now_s, config.start_timeout_s, lambda: self._stop.asked
        )
        startup = Startup(config, brokers, self._admin, self.letters)
        if startup.check():
            self._retention.ask(config.topics)
            self.client.subscribe(list(config.topics))
            if self._follower is not None:
                self._follower.start()

    def close(self, *, commit: bool, timeout_s: float) -> None:
        """Bounded; see `closing`. The letters come first: they may have something to say yet."""
        give_up_at_s = self.clock.now_s() + timeout_s
        self.requests.close()
        try:
            if self.letters is not None:
                self.letters.close()
        finally:
            left_s = give_up_at_s - self.clock.now_s()
            try:
                self._shutdown.close(commit=commit, timeout_s=left_s)
            finally:
                if self._follower is not None:
                    left_s = give_up_at_s - self.clock.now_s()
                    self._follower.close(min(max(left_s, 0.1), _LAST_ANSWERS_S))
                self._admin.close()
                self.lag.close()

    def _letters(
        self, flow_control: FlowControl, emit: Callable[[Event], None]
    ) -> DeadLetterPublisher:
        config = self.config
        if config.dead_letters is None:
            raise AssertionError("no dead-letter topic")
        wait = AckWait(
            self.clock,
            self.assignment.epochs,
            self._stop,
            answer_within_s=config.answer_within_s,
        )
        topic, oversized = config.dead_letters.topic, config.dead_letters.oversized
        delivery = (
            self._transactional(topic, wait, flow_control)
            if config.dead_letters.transactional
            else self._plain(topic, wait)
        )
        return DeadLetterPublisher(delivery, wait, oversized, emit)

    def _plain(self, topic: str, wait: AckWait) -> DeadLetterDelivery:
        config = self.config
        make = config.dependencies.producer
        return PlainDelivery(AcknowledgedProducer(topic, config.producer_config, make), wait)

    def _transactional(
        self, topic: str, wait: AckWait, flow_control: FlowControl
    ) -> DeadLetterDelivery:
        config = self.config
        # One that is shared by members would have each fence the others, for ever.
        own_id = {"transactional.id": f"{config.settings.group_id}-{uuid4()}"}
        keys = {**config.producer_config, **own_id}
        return TransactionalDelivery(
            self.client,
            TransactionalProducer(topic, keys, config.dependencies.producer),
            wait,
            flow_control,
            transaction_timeout_s=int(keys["transaction.timeout.ms"]) / 1000,
            start_timeout_s=config.start_timeout_s,
        )


def _follower(config: ConsumerConfig, commands: RemoteCommands) -> ControlTopicFollower | None:
    """Clients are made by its thread."""
    topic, clock = config.control, config.dependencies.clock
    if topic is None:
        return None
    keys = {"log_level": 0, **config.settings.connection}
    return ControlTopicFollower(
        topic,
        config.settings.group_id,
        commands,
        clock,
        lambda since_ms: TopicTail(keys, topic, since_ms, _CONTROL_PATIENCE_S),
        # What it is for journals it is for answers: nobody waits for it, and it mends itself.
        JournalProducer(journal_config(keys, {}), clock.now_s, config.dependencies.producer),
    )


def _lag(config: ConsumerConfig, assignment: Assignment, offsets: Offsets) -> Lag:
    """With handles of its own: its questions are asked by other threads."""
    settings = config.settings
    edges = Admin(config.admin_config, config.dependencies.admin)
    starts = Committed(settings.connection, settings.group_id, config.dependencies.consumer)
    return Lag(settings, assignment, offsets, edges, starts)
