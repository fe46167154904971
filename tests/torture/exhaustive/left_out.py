"""What a fingerprint leaves out, and why."""

from collections.abc import Callable
from typing import Literal, Self, TypeAlias, TypeVar

from linear_retry.consumer.assembly import Parts
from linear_retry.consumer.attempts.hand_out import HandOut, Task
from linear_retry.consumer.attempts.housekeeping import Housekeeping
from linear_retry.consumer.attempts.intake import Intake
from linear_retry.consumer.attempts.loop import Loop
from linear_retry.consumer.attempts.outcomes import Outcomes
from linear_retry.consumer.control.operator_actions import OperatorActions
from linear_retry.consumer.control.remote_commands import RemoteCommands
from linear_retry.consumer.lanes.lane_loop import LaneLoop
from linear_retry.consumer.lanes.lane_read_ahead import LaneReadAhead
from linear_retry.consumer.lanes.wide_circuit import WideCircuits, _Wide
from linear_retry.consumer.letters.publisher import AckWait, DeadLetterPublisher, PlainDelivery
from linear_retry.consumer.operations.overrun import OverrunWatchdog
from linear_retry.consumer.operations.stalled_partition import StalledPartitionWatchdog
from linear_retry.consumer.ownership.requests import Requests
from linear_retry.consumer.ownership.stop import StopFlag
from linear_retry.consumer.partitions.assignment import Assignment, _Silence
from linear_retry.consumer.partitions.batches import Batches
from linear_retry.consumer.partitions.client_events import Rebalance
from linear_retry.consumer.partitions.commit_notes import CommitNotes
from linear_retry.consumer.partitions.offsets import OffsetCommits, Offsets, _Position
from linear_retry.consumer.partitions.read_ahead import ReadAhead
from linear_retry.consumer.runners.run_handler import Batch
from linear_retry.kafka.consumer.callbacks import CallbackGuard
from linear_retry.kafka.consumer.client import Client
from linear_retry.kafka.consumer.membership import GroupMembership
from linear_retry.kafka.producers.acknowledged import AcknowledgedProducer
from linear_retry.records.commit_note import Digests
from linear_retry.retry.case import Failures, Held, Leaving
from linear_retry.retry.circuits import Circuit, Circuits
from linear_retry.retry.engine import Engine
from linear_retry.testing.guarantees.commits import CommittedOnlyDone, OnlyWhileOwned
from linear_retry.testing.guarantees.dead_letters import DeadLetteredOnlyWhenDue, _FailedMessage
from linear_retry.testing.guarantees.delivery import BoundedDuplicates, InOrder, OneAtATime
from linear_retry.testing.guarantees.liveness import Liveness, _Member
from linear_retry.testing.guarantees.open_circuits import NothingEarly, _OpenCircuit
from tests.consumer.group import FakeGroup, Member
from tests.fake.cluster import FakeKafka
from tests.fake.commits import Commits
from tests.fake.consumer import FakeConsumer
from tests.fake.fetching import Fetch, Fetching
from tests.fake.membership import Change, Membership
from tests.fake.polling import Polling
from tests.fake.producer import FakeProducer
from tests.fake.workers import FakeWorkers
from tests.testing.nothing_late import NothingLate
from tests.torture.exhaustive.small_world import Armed, World

_T = TypeVar("_T")


class Names(dict[type, tuple[str, ...]]):
    """Attributes by class."""

    def of(self, kind: type[_T], look: Callable[[_T], object]) -> Self:
        """Those that `look` reads: as code, in which mypy finds a name that is no longer there."""
        self[kind] = (*self.get(kind, ()), *look.__code__.co_names)
        return self


CHOSEN = (
    Names()
    .of(World, lambda it: (it.shape, it.partitions))
    .of(Armed, lambda it: (it.advance, it.asks_s, it.down, it.down_for, it.raises_once, it.refuses))
    .of(Armed, lambda it: it.takes_s)
    .of(FakeGroup, lambda it: (it._born, it.config, it.dead_letters, it.on_exhausted))
    .of(FakeGroup, lambda it: (it.on_permanent, it.protocol, it.scope, it.strategy, it.topics))
    .of(FakeGroup, lambda it: (it.on_unreadable_note, it.remember_failures, it.visible))
    .of(FakeGroup, lambda it: (it.concurrency, it.group_breaker_max_s, it.is_control_down))
    .of(FakeGroup, lambda it: (it.is_heard, it.said))
    .of(Member, lambda it: (it.batch_handler, it.handler, it.id, it.name))
    .of(Parts, lambda it: it.config)
    .of(LaneLoop, lambda it: (it._attempt, it._close_timeout_s, it._revoke_wait_s))
    .of(WideCircuits, lambda it: (it._by_key, it._concurrency, it._strategy))
    .of(LaneReadAhead, lambda it: (it._most, it._most_bytes, it.lane_of))
    .of(Digests, lambda it: it._keyed)
    .of(FakeWorkers, lambda it: (it._count, it._is_killed, it._rng, it.busy, it.late))
    .of(RemoteCommands, lambda it: (it._gives_up, it._utc_ms, it.member, it.on_announcement))
    .of(Client, lambda it: (it._make, it._settings, it._topics, it._transactional, it.group_id))
    .of(Client, lambda it: (it.reconnect_within_s, it.restarts_all))
    .of(CallbackGuard, lambda it: it._generation)
    .of(GroupMembership, lambda it: it.metadata)
    .of(Circuits, lambda it: (it._asked_for, it._choosing, it._name, it.hears_group))
    .of(Rebalance, lambda it: (it._emit, it._new_retry_topics, it._own_topics))
    .of(Assignment, lambda it: it.now_s)
    .of(ReadAhead, lambda it: (it._epoch, it._max_poll_interval_s, it._session_timeout_s))
    .of(ReadAhead, lambda it: it.touch_s)
    .of(CommitNotes, lambda it: (it._digests, it._group_id, it._most, it._on_unreadable))
    .of(CommitNotes, lambda it: (it._ignored, it._remembers))
    .of(Outcomes, lambda it: (it.emit, it.line))
    .of(OperatorActions, lambda it: (it._line, it.is_attempted, it.settings))
    .of(DeadLetterPublisher, lambda it: (it._oversized, it.poll, it.prepare, it.topic))
    .of(AckWait, lambda it: it._answer_within_s)
    .of(AcknowledgedProducer, lambda it: (it._config, it._make, it.topic))
    .of(FakeKafka, lambda it: (it._balanced, it._idle_polls, it._subscriptions))
    .of(FakeKafka, lambda it: (it.names_taken_until_s, it.session_ms, it.transactions))
    .of(FakeConsumer, lambda it: (it._config, it.blind, it.group, it.name, it.refused))
    .of(Commits, lambda it: (it._group, it._sees_no_broker))
    .of(OffsetCommits, lambda it: (it._emit, it._now_s))
    .of(Fetching, lambda it: (it._committed, it._log_of, it._reset, it._tells_eof, it._undecided))
    .of(Membership, lambda it: (it.callbacks, it.incremental))
    .of(Polling, lambda it: it._max_poll_s)
    .of(FakeProducer, lambda it: (it._largest_bytes, it._longest_queue, it._timeout_s))
    .of(FakeProducer, lambda it: (it._transactions, it.config, it.name))
    .of(CommittedOnlyDone, lambda it: it._visible)
    .of(InOrder, lambda it: it._lanes)
    .of(OneAtATime, lambda it: it._lanes)
    .of(DeadLetteredOnlyWhenDue, lambda it: it._strategy_length)
    .of(Liveness, lambda it: it._within_s)
    .of(NothingLate, lambda it: it._late_s)
)
"""What is the same in every state of a world; a test looks whether it is."""

REFERENCES = (
    Names()
    .of(World, lambda it: (it.armed, it.committed, it.guarantees, it.member))
    .of(FakeGroup, lambda it: (it.members, it.witness))
    .of(Member, lambda it: (it.circuits, it.handles, it._witness, it.stop, it.workers))
    .of(Parts, lambda it: (it.admin, it.retention, it.shutdown, it.startup, it.clock))
    .of(Parts, lambda it: (it.flow_control, it.replaced_logs, it.second_reader))
    .of(LaneLoop, lambda it: (it._assignment, it._circuits, it._hand_out, it._housekeeping))
    .of(LaneLoop, lambda it: (it._now_s, it._read_ahead, it._stop, it._workers))
    .of(WideCircuits, lambda it: (it._circuits, it._clock))
    .of(LaneReadAhead, lambda it: it._circuits)
    .of(FakeWorkers, lambda it: it._clock)
    .of(RemoteCommands, lambda it: (it._assignment, it._circuits, it._operator_actions))
    .of(RemoteCommands, lambda it: (it._monitor, it._requests, it.on_post))
    .of(Client, lambda it: (it._consumer, it.note_of))
    .of(Offsets, lambda it: it._note_of)
    .of(GroupMembership, lambda it: it._consumer)
    .of(Rebalance, lambda it: (it._commits, it._errors, it._flow_control, it._notes))
    .of(Rebalance, lambda it: it.drain)
    .of(ReadAhead, lambda it: (it._client, it._clock))
    .of(Loop, lambda it: (it._circuits, it._housekeeping, it._now_s, it._read_ahead))
    .of(Housekeeping, lambda it: (it._chores, it._circuits, it._commits, it._operator_actions))
    .of(Housekeeping, lambda it: (it._outcomes, it._poller, it._read_ahead, it._requests))
    .of(Housekeeping, lambda it: it.now_s)
    .of(HandOut, lambda it: (it._assignment, it._circuits, it._engine, it._flow_control))
    .of(HandOut, lambda it: (it._now_s, it._offsets, it._operator_actions, it._outcomes))
    .of(HandOut, lambda it: it._read_ahead)
    .of(Intake, lambda it: (it._assignment, it._flow_control, it._offsets, it._outcomes))
    .of(CommitNotes, lambda it: (it._assignment, it._circuits, it._client))
    .of(OverrunWatchdog, lambda it: (it._emit, it._flow_control, it._read_ahead))
    .of(Batches, lambda it: (it._assignment, it._read_ahead))
    .of(Outcomes, lambda it: (it._assignment, it._commits, it._flow_control, it._offsets))
    .of(Outcomes, lambda it: (it._operator_actions, it._publisher, it._read_ahead, it.engine))
    .of(Outcomes, lambda it: it.partitions)
    .of(Engine, lambda it: (it._circuits, it._clock, it._consecutive, it._settings, it._reading))
    .of(StalledPartitionWatchdog, lambda it: (it._ask_end, it._assignment, it._flow_control))
    .of(StalledPartitionWatchdog, lambda it: (it._offsets, it._read_ahead))
    .of(DeadLetterPublisher, lambda it: (it._emit, it._wait))
    .of(AckWait, lambda it: (it._clock, it._epochs, it._stop))
    .of(PlainDelivery, lambda it: (it._wait, it.failed, it.partitions, it.prepare))
    .of(FakeKafka, lambda it: it.producers)
    .of(FakeConsumer, lambda it: it._fake)
    .of(Commits, lambda it: (it._fake, it._membership))
    .of(OffsetCommits, lambda it: (it._client, it._offsets))
    .of(Fetching, lambda it: (it._clock, it._faults, it._logs))
    .of(Membership, lambda it: it._fetching)
    .of(Polling, lambda it: (it._consumer, it._fake, it._fetching, it._membership))
    .of(FakeProducer, lambda it: it._fake)
)
"""Who knows whom. It is seen where it is at home; what is nowhere at home has no state that any
step changes (flow control, the operator's requests, the admin client, a producer given up)."""

TOLD = (
    Names()
    .of(Member, lambda it: (it.events, it.monitor))
    .of(Parts, lambda it: it.lag)
    .of(Circuit, lambda it: (it.opened_at, it.opened_at_s, it.retry_at))
    .of(Held, lambda it: it.message)
    .of(Failures, lambda it: (it.error, it.first_ms, it.first_s, it.last_ms, it.strategy, it.text))
    .of(Leaving, lambda it: it.route)
    .of(Loop, lambda it: it._monitor)
    .of(LaneLoop, lambda it: (it._hanging, it._monitor))
    .of(WideCircuits, lambda it: it._emit)
    .of(Batch, lambda it: (it._contents, it._first, it.coming))
    .of(HandOut, lambda it: it._monitor)
    .of(_Position, lambda it: it.tail)
    .of(FakeKafka, lambda it: (it.log, it.topics))
    .of(CommittedOnlyDone, lambda it: it._last)
    .of(InOrder, lambda it: it._last)
    .of(OnlyWhileOwned, lambda it: it._ended_by)
    .of(_FailedMessage, lambda it: it.first)
    .of(Liveness, lambda it: it._last)
    .of(_OpenCircuit, lambda it: it.said)
)
"""What only goes into events, letters and stories. Of the delivery filter that is how often the
client has complained (where partitions begin is answered at once in a small world); of the broker
watchdog nothing, as no client is replaced there; of handlers that hang nothing, as none takes so
long there; of topics, the letters, which nobody reads; of a
held message, its content, and where `max_elapsed` begins, which no strategy has there. Nobody asks
for the health and the lag."""

FOLLOWS = (
    Names()
    .of(World, lambda it: (it._committed_before, it.fed, it.seen_within, it.turns))
    .of(Assignment, lambda it: it.due_at_s)
    .of(Circuits, lambda it: (it._breakers, it._places, it.all_closed))
    .of(Circuits, lambda it: (it.next_retry_at_s, it.views))
    .of(Held, lambda it: it.epoch)
    .of(RemoteCommands, lambda it: it.due_at_s)
    .of(Requests, lambda it: it.due_at_s)
    .of(ReadAhead, lambda it: (it._awake_at_s, it.deadline_s, it.doubtful_at_s, it.overruns_at_s))
    .of(CommittedOnlyDone, lambda it: (it._checked, it._done, it._owners))
    .of(InOrder, lambda it: it._first_undone)
)
"""What is computed of what is seen. A message is held only as long as its epoch lasts: whatever
ends the one drops the other."""

ANEW = (
    Names()
    .of(ReadAhead, lambda it: (it.dry, it.overslept))
    .of(LaneReadAhead, lambda it: it.is_busy)
    .of(StopFlag, lambda it: it.poll_by_s)
    .of(Assignment, lambda it: (it.epoch, it.serial))
    .of(_Silence, lambda it: it.serial)
    .of(Fetching, lambda it: it._turn)
    .of(Membership, lambda it: (it._acted, it._serving_loss, it.generation, it.lives))
    .of(FakeKafka, lambda it: it._idle)
    .of(NothingEarly, lambda it: it._ended)
)
"""What each turn sets before it looks, counters of which only changes within a turn count, and what
is asked for nowhere: the row of letters without a limit of them, generations without transactions.
"""

EVERYTHING: tuple[Names, ...] = (CHOSEN, REFERENCES, TOLD, FOLLOWS, ANEW)

BROKEN = "_broken"
"""Of guarantees: where there is anything in it, nothing more is explored."""

How: TypeAlias = Literal["until", "since", "keys", "firsts", "set", "in order", "current"]


class Ways(dict[type, dict[str, How]]):
    """How attributes are seen, by class."""

    def of(self, kind: type[_T], how: How, look: Callable[[_T], object]) -> Self:
        self.setdefault(kind, {}).update(dict.fromkeys(look.__code__.co_names, how))
        return self


SEEN_AS = (
    Ways()
    .of(Member, "since", lambda it: it._rests_since_s)
    .of(Assignment, "keys", lambda it: it.epochs)
    .of(Assignment, "until", lambda it: it._suspect)
    .of(_Silence, "until", lambda it: it.check_at_s)
    .of(CommitNotes, "current", lambda it: it._read_in)
    .of(Circuits, "in order", lambda it: it._open)
    .of(Circuit, "until", lambda it: it.retry_at_s)
    .of(ReadAhead, "since", lambda it: it.polled_at_s)
    .of(LaneReadAhead, "until", lambda it: it.next_due_at_s)
    .of(_Wide, "since", lambda it: it.since_s)
    .of(Task, "since", lambda it: it.begun_s)
    .of(Batch, "until", lambda it: it.begin_by_s)
    .of(OffsetCommits, "until", lambda it: (it.due_at_s, it._give_up_at_s, it._notes_due_at_s))
    .of(Fetch, "until", lambda it: it.ready_at_s)
    .of(Membership, "set", lambda it: it.target)
    .of(Change, "set", lambda it: it.partitions)
    .of(Polling, "since", lambda it: it._polled_at_s)
    .of(CommittedOnlyDone, "firsts", lambda it: it._before)
    .of(BoundedDuplicates, "keys", lambda it: it._done)
    .of(_OpenCircuit, "until", lambda it: it.retry_at_s)
    # How far past its time a circuit is counts here: it is taken off what a partition has waited.
    .of(_Member, "since", lambda it: it.open)
)
"""Times as distances: `until` a deadline, 0 where it is past; `since` something. Of a mapping
only the `keys`, or the `firsts` of its values (the second is there for the story), or its pairs
`in order`, or which are of the `current` assignment. A `set`, of a sequence: in which order
partitions are found is said by each poll."""
