"""What a fingerprint leaves out, and why."""

from typing import Literal, TypeAlias

Names: TypeAlias = dict[str, tuple[str, ...]]
"""Attributes by class, written `module.Class`."""

CHOSEN: Names = {
    "small_world.World": ("shape", "partitions"),
    "small_world.Armed": (
        *("advance", "asks_s", "down", "down_for", "raises_once", "refuses", "takes_s"),
    ),
    "group.FakeGroup": (
        *("_born", "config", "dead_letters", "on_exhausted", "on_permanent", "protocol"),
        *("scope", "strategy", "topics", "visible"),
    ),
    "group.Member": ("handler", "name"),
    "wiring.Wiring": ("config",),
    "remote_commands.RemoteCommands": ("_emit", "_gives_up", "_utc_ms", "member"),
    "client.Client": (
        *("_make", "_settings", "_topics", "_transactional", "group_id"),
        *("reconnect_within_s", "restarts_all"),
    ),
    "callbacks.CallbackGuard": ("_generation",),
    "membership.GroupMembership": ("metadata",),
    "circuits.Circuits": ("_asked_for", "_choosing", "_name", "_on_listener_error"),
    "rebalance.Rebalance": ("_emit", "_own_topics"),
    "assignment.Assignment": ("now_s",),
    "read_ahead.ReadAhead": (*("_epoch", "_max_poll_interval_s", "_session_timeout_s", "touch_s"),),
    "target.ConsumerTarget": ("emit", "group_id"),
    "operator_actions.OperatorActions": ("_policy",),
    "publisher.DeadLetterPublisher": ("_oversized", "poll", "prepare", "topic"),
    "publisher.AckWait": ("_answer_within_s", "is_stopping"),
    "acknowledged.AcknowledgedProducer": ("_config", "_make", "topic"),
    "cluster.FakeKafka": (
        *("_balanced", "_idle_polls", "_subscriptions", "names_taken_until_s", "session_ms"),
        "transactions",
    ),
    "consumer.FakeConsumer": ("_config", "blind", "group", "name", "refused"),
    "commits.Commits": ("_group", "_sees_no_broker"),
    "commits.OffsetCommits": ("_emit", "_now_s"),
    "fetching.Fetching": ("_committed", "_log_of", "_reset", "_tells_eof", "_undecided"),
    "membership.Membership": ("callbacks", "incremental"),
    "polling.Polling": ("_max_poll_s",),
    "producer.FakeProducer": (
        *("_largest_bytes", "_longest_queue", "_timeout_s", "_transactions", "config", "name"),
    ),
    "commits.CommittedOnlyDone": ("_visible",),
    "delivery.InOrder": ("_visible",),
    "dead_letters.DeadLetteredOnlyWhenDue": ("_strategy_length",),
    "liveness.Liveness": ("_within_s",),
    "timing.NothingLate": ("_late_s",),
}
"""What is the same in every state of a world; a test looks whether it is."""

REFERENCES: Names = {
    "small_world.World": ("armed", "committed", "guarantees", "member"),
    "group.FakeGroup": ("members", "witness"),
    "group.Member": ("circuits", "handles", "_witness", "stop"),
    "wiring.Wiring": ("_admin", "_retention", "_shutdown", "_stop", "clock"),
    "remote_commands.RemoteCommands": (
        *("_assignment", "_circuits", "_operator_actions", "_requests"),
    ),
    "client.Client": ("_consumer",),
    "membership.GroupMembership": ("_consumer",),
    "rebalance.Rebalance": ("_commits", "_errors", "_flow_control"),
    "read_ahead.ReadAhead": ("_clock", "_source"),
    "loop.Loop": (
        *("_assignment", "_chores", "_circuits", "_commits", "_engine", "_flow_control", "_now_s"),
        *("_offsets", "_operator_actions", "_poller", "_read_ahead", "_requests", "_target"),
    ),
    "target.ConsumerTarget": (
        *("_assignment", "_offsets", "_operator_actions", "_publisher", "_read_ahead"),
        *("commit", "engine", "partitions", "pause", "resume"),
    ),
    "engine.Engine": ("_circuits", "_clock", "_consecutive", "_emit", "_settings", "_target"),
    "stalled_partition.StalledPartitionWatchdog": (
        *("_assignment", "_ends", "_flow_control", "_offsets", "_read_ahead"),
    ),
    "publisher.DeadLetterPublisher": ("_assignment", "_emit", "_read_ahead"),
    "publisher.AckWait": ("_assignment", "_clock", "_read_ahead"),
    "publisher.PlainDelivery": ("_wait", "failed", "partitions", "prepare"),
    "cluster.FakeKafka": ("producers",),
    "consumer.FakeConsumer": ("_fake",),
    "commits.Commits": ("_fake", "_membership"),
    "commits.OffsetCommits": ("_client", "_offsets"),
    "fetching.Fetching": ("_clock", "_faults"),
    "membership.Membership": ("_fetching",),
    "polling.Polling": ("_consumer", "_fake", "_fetching", "_membership"),
    "producer.FakeProducer": ("_fake",),
}
"""Who knows whom. It is seen where it is at home; what is nowhere at home has no state that any
step changes (flow control, the operator's requests, the admin client, a producer given up)."""

TOLD: Names = {
    "group.Member": ("events",),
    "wiring.Wiring": ("counters", "lag"),
    "circuits.Circuit": ("opened_at", "opened_at_s", "retry_at"),
    "held.Held": (
        *("error", "error_text", "first_failure_ms", "last_failure_ms", "message", "strategy"),
    ),
    "loop.Loop": ("_counters",),
    "offsets._Position": ("tail",),
    "cluster.FakeKafka": ("log", "topics"),
    "commits.CommittedOnlyDone": ("_last",),
    "delivery.InOrder": ("_last",),
    "ownership.OnlyWhileOwned": ("_ended_by",),
    "dead_letters._FailedMessage": ("first",),
    "liveness.Liveness": ("_last",),
    "open_circuits._OpenCircuit": ("said",),
}
"""What only goes into events, letters and stories. Of the delivery filter that is how often the
client has complained (where partitions begin is answered at once in a small world); of the broker
watchdog nothing, as no client is replaced there; of topics, the letters, which nobody reads; of a
held message, its content. Nobody asks for the health and the lag."""

FOLLOWS: Names = {
    "small_world.World": ("_committed_before", "fed", "seen_within", "turns"),
    "assignment.Assignment": ("due_at_s", "stopped"),
    "circuits.Circuits": (
        *("_breakers", "_places", "_shown", "all_closed", "next_retry_at_s", "views"),
    ),
    "held.Held": ("epoch",),
    "remote_commands.RemoteCommands": ("due_at_s",),
    "requests.Requests": ("due_at_s",),
    "read_ahead.ReadAhead": ("_awake_at_s", "deadline_s", "doubtful_at_s", "overruns_at_s"),
    "commits.CommittedOnlyDone": ("_checked", "_done", "_owners"),
    "delivery.InOrder": ("_first_undone",),
}
"""What is computed of what is seen. A message is held only as long as its epoch lasts: whatever
ends the one drops the other."""

ANEW: Names = {
    "read_ahead.ReadAhead": ("dry", "overslept"),
    "stop.StopFlag": ("poll_by_s",),
    "assignment.Assignment": ("epoch", "serial"),
    "assignment._Silence": ("serial",),
    "fetching.Fetching": ("_turn",),
    "membership.Membership": ("_acted", "_serving_loss", "generation", "lives"),
    "cluster.FakeKafka": ("_idle",),
    "timing.NothingEarly": ("_ended",),
}
"""What each turn sets before it looks, counters of which only changes within a turn count, and what
is asked for nowhere: the row of letters without a limit of them, generations without transactions.
"""

EVERYTHING: tuple[Names, ...] = (CHOSEN, REFERENCES, TOLD, FOLLOWS, ANEW)

BROKEN = "_broken"
"""Of guarantees: where there is anything in it, nothing more is explored."""

How: TypeAlias = Literal["until", "since", "keys", "firsts", "set", "in order"]

SEEN_AS: dict[str, dict[str, How]] = {
    "group.Member": {"_rests_since_s": "since"},
    "assignment.Assignment": {"epochs": "keys", "_suspect": "until"},
    "assignment._Silence": {"check_at_s": "until"},
    "circuits.Circuits": {"_open": "in order"},
    "circuits.Circuit": {"retry_at_s": "until"},
    "read_ahead.ReadAhead": {"polled_at_s": "since"},
    "commits.OffsetCommits": {"due_at_s": "until", "_give_up_at_s": "until"},
    "fetching.Fetch": {"ready_at_s": "until"},
    "membership.Membership": {"target": "set"},
    "membership.Change": {"partitions": "set"},
    "polling.Polling": {"_polled_at_s": "since"},
    "commits.CommittedOnlyDone": {"_before": "firsts"},
    "delivery.BoundedDuplicates": {"_done": "keys"},
    "open_circuits._OpenCircuit": {"retry_at_s": "until"},
    # How far past its time a circuit is counts here: it is taken off what a partition has waited.
    "liveness._Member": {"open": "since"},
}
"""Times as distances: `until` a deadline, 0 where it is past; `since` something. Of a mapping
only the `keys`, or the `firsts` of its values (the second is there for the story), or its pairs
`in order`. A `set`, of a sequence: in which order partitions are found is said by each poll."""
