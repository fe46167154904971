"""Builds and connects the parts of a running consumer."""

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from uuid import uuid4

from linear_retry.consumer.attempts.hand_out import HandOut
from linear_retry.consumer.attempts.housekeeping import Chore, Housekeeping
from linear_retry.consumer.attempts.intake import Intake
from linear_retry.consumer.attempts.loop import Loop
from linear_retry.consumer.attempts.outcomes import Outcomes, Partitions
from linear_retry.consumer.control.control_topic import ControlTopicFollower
from linear_retry.consumer.control.group_breaker import GroupBreaker
from linear_retry.consumer.control.operator_actions import OperatorActions
from linear_retry.consumer.control.operator_pauses import OperatorPauses
from linear_retry.consumer.control.pausing import Pausing
from linear_retry.consumer.control.remote_commands import RemoteCommands
from linear_retry.consumer.lanes.lane_flow import LaneFlow
from linear_retry.consumer.lanes.lane_loop import LaneLoop
from linear_retry.consumer.lanes.lane_read_ahead import LaneReadAhead
from linear_retry.consumer.lanes.wide_circuit import WideCircuits
from linear_retry.consumer.lanes.workers import Workers
from linear_retry.consumer.letters.publisher import (
    AckWait,
    DeadLetterDelivery,
    DeadLetterPublisher,
    PlainDelivery,
    RecoveryCall,
)
from linear_retry.consumer.letters.transactional import TransactionalDelivery
from linear_retry.consumer.operations.client_replacement import (
    BrokerWatchdog,
    ClientReplacement,
    InstanceIdWait,
)
from linear_retry.consumer.operations.inbox import (
    LOOK_EVERY_S,
    TELL_EVERY_S,
    InboxWatch,
    asks_brokers,
)
from linear_retry.consumer.operations.lag import Lag
from linear_retry.consumer.operations.lifecycle import Brokers, Shutdown, Startup
from linear_retry.consumer.operations.monitor import Monitor
from linear_retry.consumer.operations.overrun import HangingHandlers
from linear_retry.consumer.operations.replaced_log import ReplacedLogWatchdog
from linear_retry.consumer.operations.retention import HeldMessages, RetentionCheck
from linear_retry.consumer.operations.stalled_partition import (
    JoiningWatchdog,
    StalledPartitionWatchdog,
)
from linear_retry.consumer.ownership.requests import Requests
from linear_retry.consumer.ownership.stop import StopFlag
from linear_retry.consumer.partitions.assignment import Assignment
from linear_retry.consumer.partitions.client_events import (
    ClientErrors,
    NewRetryTopics,
    OtherGroupsRetries,
    Rebalance,
)
from linear_retry.consumer.partitions.commit_notes import CommitNotes
from linear_retry.consumer.partitions.delayed_read_ahead import (
    DelayedFlow,
    DelayedReadAhead,
    delayed_queues,
)
from linear_retry.consumer.partitions.flow_control import FlowControl
from linear_retry.consumer.partitions.offset_reset import OffsetReset
from linear_retry.consumer.partitions.offsets import OffsetCommits, Offsets
from linear_retry.consumer.partitions.polling import DeliveryFilter, OffsetCheck, Poller
from linear_retry.consumer.partitions.read_ahead import ReadAhead
from linear_retry.consumer.partitions.unreadable_batches import UnreadableBatches
from linear_retry.consumer.settings.by_key import LaneOf, Order
from linear_retry.consumer.settings.consumer_config import ConsumerConfig
from linear_retry.consumer.settings.inbox import InboxPlaces
from linear_retry.kafka import Message
from linear_retry.kafka.consumer.client import Client
from linear_retry.kafka.consumer.committed import Committed
from linear_retry.kafka.consumer.second_reader import SecondReader
from linear_retry.kafka.producers.acknowledged import AcknowledgedProducer
from linear_retry.kafka.producers.journal import JournalProducer, journal_config
from linear_retry.kafka.producers.transactional import TransactionalProducer
from linear_retry.kafka.topics.admin import Admin
from linear_retry.kafka.topics.batch_end import BatchEnd
from linear_retry.kafka.topics.tail import TopicTail
from linear_retry.log.lines import log_joining
from linear_retry.retry.circuits import Circuits
from linear_retry.retry.clock import Clock

_LAST_ANSWERS_S = 1.0
_CONTROL_PATIENCE_S = 5.0
_MOST_OF_KEYS = 100_000
"""Messages in memory: those behind keys that are held are among them, while others go on."""


@dataclass(slots=True, kw_only=True)
class Parts:
    """The connected parts of a running consumer, as far as it is started, asked and closed."""

    config: ConsumerConfig
    clock: Clock
    client: Client
    circuits: Circuits[Message]
    assignment: Assignment
    offsets: Offsets
    read_ahead: ReadAhead
    flow_control: FlowControl
    replaced_logs: ReplacedLogWatchdog
    lag: Lag
    requests: Requests
    commands: RemoteCommands
    letters: DeadLetterPublisher | None
    housekeeping: Housekeeping
    loop: Loop
    lanes: LaneLoop | None
    second_reader: SecondReader
    startup: Startup
    retention: RetentionCheck
    follower: ControlTopicFollower | None
    shutdown: Shutdown
    admin: Admin

    def start(self) -> None:
        """Checks that every topic exists, then joins the group.

        Raises `BrokerError` and `ConfigurationError`. Does nothing after a stop.
        """
        topics = self.config.topics
        if self.startup.check():
            self.retention.ask(topics)
            self.client.subscribe(list(topics))
            if self.follower is not None:
                self.follower.start()

    def close(self, *, commit: bool, timeout_s: float) -> None:
        """Closes the parts in bounded time. Letters first: they may still emit an event."""
        now_s = self.clock.now_s
        give_up_at_s = now_s() + timeout_s
        self.requests.close()
        self.commands.close()
        try:
            if self.letters is not None:
                self.letters.close()
        finally:
            try:
                self.shutdown.close(commit=commit, timeout_s=give_up_at_s - now_s())
            finally:
                if self.follower is not None:
                    left_s = give_up_at_s - now_s()
                    self.follower.close(min(max(left_s, 0.1), _LAST_ANSWERS_S))
                if self.lanes is not None:
                    self.lanes.close()
                self.second_reader.close()
                self.admin.close()
                self.lag.close()


def assemble(
    config: ConsumerConfig,
    circuits: Circuits[Message],
    monitor: Monitor,
    stop: StopFlag,
    order: Order,
    inbox: InboxPlaces | None = None,
) -> Parts:
    """Creates all parts, in the thread that owns the consumer: here I/O starts.

    `order` is that of its messages. `inbox` has its places, where they lie in the application's
    database. Raises `ConfigurationError` if librdkafka refuses a key.
    """
    settings, dependencies, emit = config.settings, config.dependencies, monitor.emit
    clock = dependencies.clock
    letters_wanted = config.dead_letters
    client = Client(
        settings,
        dependencies.consumer,
        transactional=letters_wanted is not None and letters_wanted.transactional,
    )
    admin = Admin(config.admin_config, dependencies.admin)
    requests = Requests()

    # The partitions: what is assigned, read ahead, done and committed.
    assignment = Assignment(clock.now_s)
    on_start = None if inbox is None else inbox.starts
    offsets = Offsets(lambda *place: client.note_of(*place), on_start)
    read_ahead = _read_ahead_of(config, circuits, order.lane_of)(
        client,
        clock,
        lambda: assignment.epoch,
        max_poll_interval_s=settings.max_poll_interval_s,
        session_timeout_s=settings.session_timeout_s,
    )
    flow_control = FlowControl(
        client=client,
        assignment=assignment,
        offsets=offsets,
        circuits=circuits,
        read_ahead=read_ahead,
        emit=emit,
        start_positions=None
        if inbox is None
        else partial(inbox.claim, asks_brokers(config, client)),
    )
    notes = CommitNotes(
        client=client,
        assignment=assignment,
        circuits=circuits,
        read_ahead=read_ahead,
        remembers=config.remember_failures,
        on_unreadable=config.on_unreadable_note,
        key_of=order.key_of,
        key_id="" if config.by_key is None else config.by_key.key_id,
        only_failures=inbox is not None,
    )
    client.note_of = notes.of
    commits = OffsetCommits(client, clock.now_s, offsets, emit)
    partitions = Partitions(
        assignment=assignment,
        offsets=offsets,
        read_ahead=read_ahead,
        flow_control=flow_control,
        commits=commits,
    )

    # What follows an attempt.
    letters = _letters(config, client, assignment, flow_control, notes, stop, monitor)
    recovery = config.recovery
    actions = OperatorActions(
        circuits=circuits,
        clock=clock,
        requests=requests,
        settings=config.retry,
        line=config.line,
        emit=emit,
    )
    outcomes = Outcomes(
        line=config.line,
        partitions=partitions,
        publisher=letters,
        recovery=None if recovery is None else RecoveryCall(recovery, assignment.epochs),
        operator_actions=actions,
        settings=config.retry,
        emit=emit,
        inbox=inbox,
    )

    # What the client delivers and reports.
    errors = ClientErrors(client, clock.now_s, settings.group_id, flow_control, emit)
    rebalance = Rebalance(
        flow_control=flow_control,
        commits=commits,
        notes=notes,
        errors=errors,
        own_topics=config.own_topics,
        emit=emit,
        new_retry_topics=None if config.reads_retries else NewRetryTopics(config.topics),
    )
    client.set_listener(rebalance)
    reset = OffsetReset(
        client=client,
        assignment=assignment,
        flow_control=flow_control,
        reset=settings.reset,
        emit=emit,
        reads_retries=config.reads_retries,
    )
    unreadable = UnreadableBatches(
        clock=clock,
        assignment=assignment,
        flow_control=flow_control,
        requests=requests,
        batch_end=BatchEnd(settings.config, dependencies.consumer),
        emit=emit,
    )
    delivery_filter = DeliveryFilter(
        assignment=assignment,
        read_ahead=read_ahead,
        offset_check=OffsetCheck(
            assignment=assignment,
            read_ahead=read_ahead,
            flow_control=flow_control,
            commits=commits,
            notes=notes,
            errors=errors,
            leader_epochs=client.leader_epochs,
        ),
        offset_reset=reset,
        unreadable=unreadable,
        errors=errors,
    )
    poller = Poller(assignment, read_ahead, flow_control, delivery_filter, unreadable)

    # What is done now and then, between two polls.
    replacement = ClientReplacement(
        client=client,
        assignment=assignment,
        errors=errors,
        drop=flow_control.drop,
        instance_id_wait=InstanceIdWait(
            settings=settings,
            now_s=clock.now_s,
            ask_session_timeout_ms=admin.ask_session_timeout_ms,
            at_least_s=config.start_timeout_s,
            emit=emit,
        ),
        emit=emit,
    )
    brokers = BrokerWatchdog(
        client=client,
        assignment=assignment,
        topics=config.topics,
        ask_brokers=admin.ask_brokers,
        report=errors.report,
        replace=replacement.replace,
    )
    stalled = StalledPartitionWatchdog(
        assignment=assignment,
        read_ahead=read_ahead,
        flow_control=flow_control,
        ask_end=admin.ask_end,
        sees_brokers=brokers.sees,
    )
    replaced_logs = ReplacedLogWatchdog(
        client=client,
        assignment=assignment,
        offsets=offsets,
        admin=admin,
        reset=reset,
        replace=replacement.replace,
        emit=emit,
    )
    joining = JoiningWatchdog(
        now_s=clock.now_s,
        has_joined=lambda: monitor.joined or client.member.has_joined_unheard,
        say=partial(log_joining, settings.group_id, config.member),
    )
    retention = RetentionCheck(admin, config.strategy_total_s, emit)
    held_messages = HeldMessages(circuits, read_ahead.count_behind, admin, clock, emit)
    commands = RemoteCommands(
        config.member, assignment, actions, monitor, gives_up=letters is not None
    )
    pausing = Pausing(flow_control, assignment, clock)
    pauses = OperatorPauses(
        pausing=pausing,
        requests=requests,
        clock=clock,
        longest_s=config.group_pause_max_s,
        emit=emit,
    )
    second_reader = SecondReader(settings.config, dependencies.consumer)
    chores: list[Chore] = [
        (flow_control, flow_control.place),
        (reset, reset.tick),
        (commits, outcomes.tick),
        (assignment, stalled.reclaim),
        (assignment, stalled.tick),
        (assignment, unreadable.reread),
        (assignment, assignment.plan_check),
        (requests, unreadable.consider_skips),
        (errors, replacement.tick),
        (brokers, brokers.tick),
        (replaced_logs, replaced_logs.tick),
        (retention, retention.tick),
        (held_messages, held_messages.tick),
        (commands, commands.tick),
        (requests, pauses.consider),
        (pauses, pauses.tick),
        (joining, joining.tick),
    ]
    if config.group_breaker_max_s is not None:
        breaker = GroupBreaker(
            member=config.member,
            group_id=config.line.group_id,
            pausing=pausing,
            circuits=circuits,
            commands=commands,
            monitor=monitor,
            clock=clock,
            rng=dependencies.rng,
            longest_s=config.group_breaker_max_s,
        )
        chores.append((breaker, breaker.tick))
    if inbox is not None:
        every_s = LOOK_EVERY_S if config.by_key is None else TELL_EVERY_S
        watch = InboxWatch(inbox, flow_control, clock.now_s, every_s=every_s)
        chores.append((watch, watch.tick))
    if isinstance(read_ahead, DelayedReadAhead):
        waits = DelayedFlow(read_ahead, flow_control)
        chores.insert(0, (waits, waits.tick))
        monitor.listen(OtherGroupsRetries(config.line.group_id))
    if isinstance(read_ahead, LaneReadAhead):
        flow = LaneFlow(read_ahead, flow_control, second_reader, clock.now_s, emit)
        chores.insert(0, (flow, flow.tick))
    housekeeping = Housekeeping(poller, outcomes, actions, chores)
    hand_out = HandOut(
        intake=Intake(
            outcomes,
            notes,
            reads_retries=config.reads_retries,
            returns=config.returns,
            lane_of=order.lane_of,
            inbox=inbox if config.by_key is not None else None,
        ),
        outcomes=outcomes,
        operator_actions=actions,
        monitor=monitor,
        reads_retries=config.reads_retries,
    )
    lanes = None
    if isinstance(read_ahead, LaneReadAhead):
        lanes = LaneLoop(
            housekeeping=housekeeping,
            hand_out=hand_out,
            read_ahead=read_ahead,
            assignment=assignment,
            workers=Workers(config.concurrency),
            hanging=HangingHandlers(
                flow_control,
                clock.now_s,
                emit,
                limit_s=settings.max_poll_interval_s,
                workers=config.concurrency,
            ),
            operator_actions=actions,
            monitor=monitor,
            stop=stop,
            close_timeout_s=config.close_timeout_s,
            revoke_wait_s=None if config.by_key is None else config.by_key.revoke_wait_s,
            wide=None
            if config.by_key is None
            else WideCircuits(
                by_key=config.by_key,
                concurrency=config.concurrency,
                circuits=circuits,
                clock=clock,
                strategy=config.retry.policy.strategy,
                emit=emit,
            ),
        )
        rebalance.drain = lanes.drain
        pausing.on_begin, pausing.on_end = lanes.pause, lanes.resume
    else:
        commands.on_post = stop.hurry

    return Parts(
        config=config,
        clock=clock,
        client=client,
        circuits=circuits,
        assignment=assignment,
        offsets=offsets,
        read_ahead=read_ahead,
        flow_control=flow_control,
        replaced_logs=replaced_logs,
        # Other threads ask for it: it has clients of its own.
        lag=Lag(
            settings=settings,
            assignment=assignment,
            offsets=offsets,
            read_ahead=read_ahead,
            edges=Admin(config.admin_config, dependencies.admin),
            starts=Committed(settings.connection, settings.group_id, dependencies.consumer),
        ),
        requests=requests,
        commands=commands,
        letters=letters,
        housekeeping=housekeeping,
        loop=Loop(
            housekeeping=housekeeping,
            hand_out=hand_out,
            read_ahead=read_ahead,
            circuits=circuits,
            monitor=monitor,
            stop=stop,
        ),
        lanes=lanes,
        second_reader=second_reader,
        startup=Startup(
            config=config,
            brokers=Brokers(
                client=client,
                settings=settings,
                now_s=clock.now_s,
                timeout_s=config.start_timeout_s,
                stopping=lambda: stop.asked,
            ),
            admin=admin,
            letters=letters,
        ),
        retention=retention,
        follower=_follower(config, commands),
        shutdown=Shutdown(
            client, assignment, offsets, emit, leaves_group=settings.static_member is None
        ),
        admin=admin,
    )


def _read_ahead_of(
    config: ConsumerConfig, circuits: Circuits[Message], lane_of: LaneOf
) -> Callable[..., ReadAhead]:
    if config.reads_retries:
        queues = delayed_queues(config.line.delay_ms, config.dependencies.clock)
        return partial(DelayedReadAhead, queues)
    if not config.has_lanes:
        return ReadAhead
    by_key = config.by_key
    if by_key is None:
        return partial(LaneReadAhead, lane_of, circuits)
    return partial(
        LaneReadAhead, lane_of, circuits, most=_MOST_OF_KEYS, most_bytes=by_key.most_bytes
    )


def _letters(
    config: ConsumerConfig,
    client: Client,
    assignment: Assignment,
    flow_control: FlowControl,
    notes: CommitNotes,
    stop: StopFlag,
    monitor: Monitor,
) -> DeadLetterPublisher | None:
    """The publisher of dead letters, plain or transactional; None without a topic for them."""
    letters, dependencies = config.dead_letters, config.dependencies
    if letters is None:
        return None
    wait = AckWait(
        dependencies.clock, assignment.epochs, stop, answer_within_s=config.answer_within_s
    )
    keys = config.producer_config
    delivery: DeadLetterDelivery
    if letters.transactional:
        # A transactional.id shared by members would make them fence each other for ever.
        keys = {**keys, "transactional.id": f"{config.settings.group_id}-{uuid4()}"}
        delivery = TransactionalDelivery(
            client=client,
            producer=TransactionalProducer(letters.topic, keys, dependencies.producer),
            wait=wait,
            flow_control=flow_control,
            commit_of=notes.once_done,
            transaction_timeout_s=int(keys["transaction.timeout.ms"]) / 1000,
            start_timeout_s=config.start_timeout_s,
        )
    else:
        producer = AcknowledgedProducer(letters.topic, keys, dependencies.producer)
        delivery = PlainDelivery(producer, wait)
    topics = () if config.retries is None else config.retries.topics
    return DeadLetterPublisher(delivery, wait, letters.oversized, monitor.emit, topics)


def _follower(config: ConsumerConfig, commands: RemoteCommands) -> ControlTopicFollower | None:
    """The follower of the control topic; its thread creates the clients."""
    topic, clock = config.control, config.dependencies.clock
    if topic is None:
        return None
    keys = {"log_level": 0, **config.settings.connection}
    return ControlTopicFollower(
        topic=topic,
        groups={config.line.group_id, config.settings.group_id},
        commands=commands,
        clock=clock,
        since=lambda since_ms: TopicTail(keys, topic, since_ms, _CONTROL_PATIENCE_S),
        # As for journals: nobody waits for this producer, and it recovers by itself.
        writer=JournalProducer(journal_config(keys, {}), clock.now_s, config.dependencies.producer),
        group_pause_max_s=config.group_pause_max_s,
        is_prompt=config.group_breaker_max_s is not None,
    )
