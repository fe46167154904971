"""Builds and connects the parts of a running consumer."""

from functools import partial

from linear_retry.consumer.letters.recovery import RecoveryCall
from linear_retry.consumer.letters.wiring import dead_letter_publisher
from linear_retry.consumer.lifecycle.shutdown import Shutdown
from linear_retry.consumer.lifecycle.startup import Brokers, RetentionCheck, Startup
from linear_retry.consumer.loop import Chore, Loop
from linear_retry.consumer.operations.control_topic import ControlTopicFollower
from linear_retry.consumer.operations.monitoring.monitor import Monitor
from linear_retry.consumer.operations.monitoring.other_groups import (
    NewRetryTopics,
    OtherGroupsRetries,
)
from linear_retry.consumer.operations.operator_actions import OperatorActions
from linear_retry.consumer.operations.remote_commands import RemoteCommands
from linear_retry.consumer.operations.requests import Requests
from linear_retry.consumer.operations.watchdogs.broker import BrokerWatchdog
from linear_retry.consumer.operations.watchdogs.client_replacement import (
    ClientReplacement,
    InstanceIdWait,
)
from linear_retry.consumer.operations.watchdogs.joining import JoiningWatchdog
from linear_retry.consumer.operations.watchdogs.replaced_log import ReplacedLogWatchdog
from linear_retry.consumer.operations.watchdogs.stalled_partition import StalledPartitionWatchdog
from linear_retry.consumer.outcomes import Outcomes, Partitions
from linear_retry.consumer.partitions.assignment import Assignment
from linear_retry.consumer.partitions.client_errors import ClientErrors
from linear_retry.consumer.partitions.delayed_read_ahead import DelayedFlow, DelayedReadAhead
from linear_retry.consumer.partitions.flow_control import FlowControl
from linear_retry.consumer.partitions.lag import Lag
from linear_retry.consumer.partitions.offset_reset import OffsetReset
from linear_retry.consumer.partitions.offsets import OffsetCommits, Offsets
from linear_retry.consumer.partitions.polling import DeliveryFilter, OffsetCheck, Poller
from linear_retry.consumer.partitions.read_ahead import ReadAhead
from linear_retry.consumer.partitions.rebalance import Rebalance
from linear_retry.consumer.partitions.unreadable_batches import UnreadableBatches
from linear_retry.consumer.runners.stop import StopFlag
from linear_retry.consumer.settings.consumer_config import ConsumerConfig
from linear_retry.kafka import Message
from linear_retry.kafka.consumer.client import Client
from linear_retry.kafka.consumer.committed import Committed
from linear_retry.kafka.producers.journal import JournalProducer, journal_config
from linear_retry.kafka.topics.admin import Admin
from linear_retry.kafka.topics.batch_end import BatchEnd
from linear_retry.kafka.topics.tail import TopicTail
from linear_retry.log.lines import log_joining
from linear_retry.retry.circuits import Circuits
from linear_retry.retry.clock import Clock

_LAST_ANSWERS_S = 1.0
_CONTROL_PATIENCE_S = 5.0


class Wiring:
    """The connected parts of a running consumer. Created by the owner thread: here I/O starts."""

    def __init__(
        self,
        config: ConsumerConfig,
        circuits: Circuits[Message],
        monitor: Monitor,
        stop: StopFlag,
    ) -> None:
        """Raises `ConfigurationError` if librdkafka refuses a key."""
        settings, emit = config.settings, monitor.emit
        self.config = config
        self.clock = config.dependencies.clock
        self.circuits = circuits
        self.monitor = monitor
        self._stop = stop
        self.client = _client(config)
        self._admin = Admin(config.admin_config, config.dependencies.admin)
        self.requests = Requests()
        partitions = self._partitions()
        self.assignment, self.offsets = partitions.assignment, partitions.offsets
        self.read_ahead = partitions.read_ahead
        self.lag = _lag(config, self.assignment, self.offsets)
        self.letters = dead_letter_publisher(
            config, self.client, self.assignment, partitions.flow_control, stop, emit
        )
        operator_actions = OperatorActions(
            *(circuits, self.clock, self.requests, config.retry.policy, config.line), emit
        )
        gives_up = self.letters is not None
        self.commands = RemoteCommands(
            config.member, self.assignment, operator_actions, monitor, gives_up=gives_up
        )
        self._follower = _follower(config, self.commands)
        self._retention = RetentionCheck(self._admin, config.strategy_total_s, emit)
        leaves_group = settings.static_member is None
        self._shutdown = Shutdown(
            self.client, self.assignment, self.offsets, emit, leaves_group=leaves_group
        )
        outcomes = Outcomes(
            *(config.line, partitions, self.letters, self._recovery(), operator_actions),
            config.retry,
            emit,
        )
        monitor.listen(
            OtherGroupsRetries(config.line.group_id)
            if config.reads_retries
            else NewRetryTopics(config.topics)
        )
        self.loop = self._loop(partitions, outcomes, operator_actions)

    def start(self) -> None:
        """Checks that every topic exists, then joins the group.

        Raises `BrokerError` and `ConfigurationError`. Does nothing after a stop.
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
        """Closes the parts in bounded time. Letters first: they may still emit an event."""
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

    # -- inside ----------------------------------------------------------------------------

    def _partitions(self) -> Partitions:
        client, clock, emit = self.client, self.clock, self.monitor.emit
        assignment, offsets = Assignment(clock.now_s), Offsets()
        read_ahead = self._read_ahead(client, clock, assignment)
        flow_control = FlowControl(
            *(client, assignment, offsets, self.circuits, read_ahead, emit),
            start_positions=self.config.dependencies.start_positions,
        )
        commits = OffsetCommits(client, clock.now_s, offsets, emit)
        return Partitions(assignment, offsets, read_ahead, flow_control, commits)

    def _read_ahead(self, client: Client, clock: Clock, assignment: Assignment) -> ReadAhead:
        settings, delay_ms = self.config.settings, self.config.line.delay_ms
        make = partial(DelayedReadAhead, delay_ms) if self.config.reads_retries else ReadAhead
        return make(
            client,
            clock,
            lambda: assignment.epoch,
            max_poll_interval_s=settings.max_poll_interval_s,
            session_timeout_s=settings.session_timeout_s,
        )

    def _loop(
        self, partitions: Partitions, outcomes: Outcomes, operator_actions: OperatorActions
    ) -> Loop:
        config, emit, requests = self.config, self.monitor.emit, self.requests
        assignment = partitions.assignment
        flow_control, commits = partitions.flow_control, partitions.commits
        errors = ClientErrors(
            self.client, self.clock.now_s, config.settings.group_id, flow_control, emit
        )
        end = BatchEnd(config.settings.config, config.dependencies.consumer)
        batches = UnreadableBatches(self.clock, assignment, flow_control, requests, end, emit)
        check = OffsetCheck(assignment, partitions.read_ahead, flow_control, commits, errors)
        reset = OffsetReset(
            *(self.client, assignment, flow_control, config.settings.reset, emit),
            refuses_loss=config.dependencies.start_positions is not None,
            reads_retries=config.reads_retries,
        )
        rebalance = Rebalance(flow_control, commits, errors, config.own_topics, emit)
        self.client.set_listener(rebalance)
        replacement = self._replacement(errors, flow_control)
        joining = JoiningWatchdog(
            self.clock.now_s,
            lambda: self.monitor.joined or self.client.member.has_joined_unheard,
            partial(log_joining, config.settings.group_id, config.member),
        )
        self.replaced_logs = ReplacedLogWatchdog(
            *(self.client, assignment, self.offsets, self._admin, reset),
            replacement.replace,
            emit,
        )
        chores: list[Chore] = [
            *self._waits(partitions),
            (reset, reset.tick),
            (commits, outcomes.tick),
            *self._watchdogs(partitions, batches, errors, replacement),
            (self.replaced_logs, self.replaced_logs.tick),
            (self._retention, self._retention.tick),
            (self.commands, self.commands.tick),
            (joining, joining.tick),
        ]
        accept = DeliveryFilter(assignment, partitions.read_ahead, check, reset, batches, errors)
        poller = Poller(assignment, partitions.read_ahead, flow_control, accept, batches)
        return Loop(
            poller,
            outcomes,
            operator_actions,
            self.monitor,
            self._stop,
            chores,
            reads_retries=config.reads_retries,
            returns=config.returns,
        )

    @staticmethod
    def _waits(partitions: Partitions) -> list[Chore]:
        """The waits of retry topics, where these are read."""
        read_ahead = partitions.read_ahead
        if not isinstance(read_ahead, DelayedReadAhead):
            return []
        flow = DelayedFlow(read_ahead, partitions.flow_control)
        return [(flow, flow.tick)]

    def _replacement(self, errors: ClientErrors, flow_control: FlowControl) -> ClientReplacement:
        name_wait = InstanceIdWait(
            self.config.settings,
            self.clock.now_s,
            self._admin.ask_session_timeout_ms,
            self.config.start_timeout_s,
            self.monitor.emit,
        )
        return ClientReplacement(
            *(self.client, self.assignment, errors, flow_control.drop, name_wait), self.monitor.emit
        )

    def _watchdogs(
        self,
        partitions: Partitions,
        batches: UnreadableBatches,
        errors: ClientErrors,
        replacement: ClientReplacement,
    ) -> list[Chore]:
        assignment, admin = partitions.assignment, self._admin
        brokers = BrokerWatchdog(
            *(self.client, assignment, self.config.topics, admin.ask_brokers, errors.report),
            replacement.replace,
        )
        stalled = StalledPartitionWatchdog(
            *(assignment, partitions.read_ahead, partitions.flow_control, admin.ask_end),
            brokers.sees,
        )
        return [
            (assignment, stalled.reclaim),
            (assignment, stalled.tick),
            (assignment, batches.reread),
            (assignment, assignment.plan_check),
            (self.requests, batches.consider_skips),
            (errors, replacement.tick),
            (brokers, brokers.tick),
        ]

    def _recovery(self) -> RecoveryCall | None:
        recovery = self.config.recovery
        return None if recovery is None else RecoveryCall(recovery, self.assignment.epochs)


def _client(config: ConsumerConfig) -> Client:
    transactional = config.dead_letters is not None and config.dead_letters.transactional
    return Client(config.settings, config.dependencies.consumer, transactional=transactional)


def _follower(config: ConsumerConfig, commands: RemoteCommands) -> ControlTopicFollower | None:
    """The follower of the control topic; its thread creates the clients."""
    topic, clock = config.control, config.dependencies.clock
    if topic is None:
        return None
    keys = {"log_level": 0, **config.settings.connection}
    return ControlTopicFollower(
        topic,
        {config.line.group_id, config.settings.group_id},
        commands,
        clock,
        lambda since_ms: TopicTail(keys, topic, since_ms, _CONTROL_PATIENCE_S),
        # As for journals: nobody waits for this producer, and it recovers by itself.
        JournalProducer(journal_config(keys, {}), clock.now_s, config.dependencies.producer),
    )


def _lag(config: ConsumerConfig, assignment: Assignment, offsets: Offsets) -> Lag:
    """The lag, with its own clients, as other threads use it."""
    settings = config.settings
    edges = Admin(config.admin_config, config.dependencies.admin)
    starts = Committed(settings.connection, settings.group_id, config.dependencies.consumer)
    return Lag(settings, assignment, offsets, edges, starts)
