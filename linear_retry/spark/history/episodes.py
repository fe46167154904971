"""The episodes in the journal: each time a circuit was open, but for those of single keys.

Its columns are in docs/spark/outages.md. An episode begins with `CircuitOpened` and ends with
`CircuitClosed` of the same scope and the same instance of a member. Nothing is guessed; `kind` says
what is in the journal:

- `closed`: both entries.
- `close_missing`: the scope was opened again without having been closed.
- `stopped`, `restarted`: it was open when the consumer stopped, or was followed by another instance
  of its member without a `Stopped`.
- `taken_over`: nothing after it, and the partition of its message was assigned to another instance.
- `open`: nothing after it.
- `left_censored`: no beginning.

`missing` counts the entries that were dropped within it. Only bounds of its duration are known: it
lasted longer than `lower_ms`, the start of the last attempt that failed, and no longer than
`upper_ms`, the start of the first that succeeded, both since the first failure. There is no upper
bound unless it ended with `recovered`; and there are no bounds if entries are missing, the circuit
opened for a dead letter and not for an attempt, or a clock went back.
"""

from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as F  # noqa: N812  (its usual name)

from linear_retry.spark.tables.sql import date_of

KINDS = (
    *("closed", "close_missing", "stopped", "restarted", "taken_over", "open", "left_censored"),
)

_BEGINNING, _NOW = Window.unboundedPreceding, Window.currentRow
_END = Window.unboundedFollowing

_HASH = "of_member"
_MEMBER = (_HASH, "group", "member")
_INSTANCE = (*_MEMBER, "instance")
_SCOPE = (*_INSTANCE, "scope_topic", "scope_partition")
_EPISODE = (*_SCOPE, "number")
_TRANSITIONS = (
    *("CircuitOpened", "ProbeFailed", "RetriedNow"),
    *("CircuitClosed", "DeadLetterFailed", "LimitReached"),
)
_LEFT = ("SentToRetry", "HandedOver")
"""With these a message leaves the line when the strategy has not saved it."""
_ENDINGS = ("DeadLettered", *_LEFT)
_GAVE_UP = ("dead-lettered", "sent-to-retry", "handed-over")
_WITH_ERROR = ("CircuitOpened", "ProbeFailed", "LimitReached")
_ERROR_TYPE = "^<?([A-Za-z_][A-Za-z0-9_.]*)"


def episodes(journal: DataFrame) -> DataFrame:
    """One row for each episode in the rows of `journal`, found with one shuffle, by member.

    An episode is a period in which one circuit was open; `group_outages` makes outages of them. Not
    for a streaming DataFrame. docs/spark/outages.md has the columns.
    """
    return taken_over(of_members(journal), owners(journal))


def of_members(journal: DataFrame) -> DataFrame:
    """The episodes as each member's own entries show them, without the rest of its group."""
    numbered = _numbered(_transitions(_instances(_entries(journal.where("problems IS NULL")))))
    return _classified(numbered.groupBy(*_EPISODE).agg(*_aggregates())).select(*_columns())


def owners(journal: DataFrame) -> DataFrame:
    """The instance of a group that each partition was assigned to last, and when."""
    # The brokers' clock where the topic has it: members' may differ.
    at_ms = F.coalesce(F.unix_millis("timestamp"), F.col("at_ms"))
    assigned = journal.where("problems IS NULL AND event = 'Assigned'").select(
        "group", "instance", at_ms.alias("assigned_ms"), F.explode("partitions").alias("own")
    )
    return assigned.groupBy(
        "group",
        F.col("own.topic").alias("message_topic"),
        F.col("own.partition").alias("message_partition"),
    ).agg(F.max(F.struct("assigned_ms", "instance")).alias("owner"))


def taken_over(found: DataFrame, owners: DataFrame) -> DataFrame:
    """Closes what is open of a member that is gone: a dead dynamic member never says so."""
    owner, held = F.col("owner"), ["group", "message_topic", "message_partition"]
    last_ms = F.col("last_at_ms") + F.coalesce("clock_ms", F.lit(0))
    is_taken = (owner["instance"] != F.col("instance")) & (owner["assigned_ms"] > last_ms)
    kind = F.when((F.col("kind") == "open") & is_taken, "taken_over").otherwise(F.col("kind"))
    # Broadcast, else all episodes without a message would be sorted in one task.
    joined = found.join(F.broadcast(owners), held, "left").withColumn("kind", kind)
    return joined.select(*found.columns)


def _entries(readable: DataFrame) -> DataFrame:
    """The columns needed, the entries of each member together and in order."""
    event = F.col("event")
    is_ending = event.isin(*_ENDINGS)
    # A table of an earlier release has no such column until something is ingested.
    key = F.col("scope_key") if "scope_key" in readable.columns else F.lit(None)
    needed = readable.select(
        # A sort compares the first eight bytes first, and many groups' names start alike.
        F.xxhash64("group", "member").alias(_HASH),
        "group",
        "member",
        "instance",
        "sequence",
        "topic",
        "partition",
        "offset",
        "event",
        "at_ms",
        "outcome",
        "open_s",
        "failures",
        # A record's timestamp is the same clock's, unless the topic has the brokers set it.
        (F.unix_millis("timestamp") - F.col("at_ms")).alias("clock_ms"),
        F.when(event == "RetriedNow", F.col("at_ms"))
        .otherwise(F.col("retry_at_ms"))
        .alias("due_ms"),
        *(
            F.when(is_ending, F.col(f"message_{name}"))
            .otherwise(F.col(f"scope_{name}"))
            .alias(f"scope_{name}")
            for name in ("topic", "partition")
        ),
        key.isNotNull().alias("is_of_key"),
        F.when(
            event == "CircuitOpened",
            F.struct("message_topic", "message_partition", "message_offset"),
        ).alias("message"),
        F.when(event.isin(*_WITH_ERROR), F.col("error")).alias("error"),
        # A reason of its own is not needed: only what is exhausted leaves in these ways.
        (event.isin(*_LEFT) | ((event == "DeadLettered") & (F.col("reason") == "exhausted"))).alias(
            "exhausted"
        ),
    )
    in_order = (*_INSTANCE, "sequence", "topic", "partition", "offset")
    return needed.repartition(*_MEMBER).sortWithinPartitions(*in_order)


def _instances(entries: DataFrame) -> DataFrame:
    """Deduplicates the entries, and adds the facts about their instances.

    In one window: a second one, by member or unordered, would copy all rows again.
    """
    instance = Window.partitionBy(*_INSTANCE).orderBy("sequence")
    whole = instance.rowsBetween(_BEGINNING, _END)
    until_now = instance.rowsBetween(_BEGINNING, _NOW)
    event = F.col("event")
    is_transition = event.isin(*_TRANSITIONS) & ~F.col("is_of_key")
    again = F.coalesce(F.lag("sequence").over(instance) == F.col("sequence"), F.lit(False))
    return entries.select(
        "*",
        is_transition.alias("is_transition"),
        again.alias("again"),
        (F.col("sequence") - F.dense_rank().over(instance)).alias("lost"),
        F.count(F.when(event.isin("Revoked", "Lost"), 1)).over(until_now).alias("moves"),
        F.max(F.when(event == "Stopped", F.col("sequence"))).over(whole).alias("stopped"),
        F.max("at_ms").over(whole).alias("instance_ends_ms"),
        (F.max("sequence").over(whole) == F.col("sequence")).alias("is_last"),
        *(
            F.max(is_transition & F.col(name).isNotNull()).over(whole).alias(f"has_{name}")
            for name in ("scope_topic", "scope_partition")
        ),
    ).where("NOT again")


def _transitions(instances: DataFrame) -> DataFrame:
    """Transitions, endings with the scope of their message, and each instance's last entry."""
    is_ending = F.col("event").isin(*_ENDINGS)
    chosen = instances.where(F.col("is_transition") | is_ending | F.col("is_last"))
    return chosen.withColumns(
        {
            name: F.when(~is_ending | F.col(f"has_{name}"), F.col(name))
            for name in ("scope_topic", "scope_partition")
        }
    )


def _numbered(transitions: DataFrame) -> DataFrame:
    """Each transition with the number of its episode, and the transition before it in its scope."""
    scope = Window.partitionBy(*_SCOPE).orderBy("sequence")
    event, is_transition = F.col("event"), F.col("is_transition")
    is_opened, is_closed = event == "CircuitOpened", event == "CircuitClosed"
    until_now, earlier = scope.rowsBetween(_BEGINNING, _NOW), scope.rowsBetween(_BEGINNING, -1)
    # A whole row at a time: for single columns, a NULL would be replaced by an older value.
    transition = F.struct("event", "due_ms", "moves")
    before = F.last(F.when(is_transition, transition), ignorenulls=True).over(earlier)
    # It grows by one or two per episode: at an opening, or after a close.
    number = F.count(F.when(is_opened, 1)).over(until_now) + F.count(F.when(is_closed, 1)).over(
        earlier
    )
    with_before = transitions.select("*", before.alias("before"), number.alias("counted"))
    is_shut = F.coalesce(F.col("before.event") == "CircuitClosed", F.lit(True))
    is_ending = event.isin(*_ENDINGS) & ~is_shut
    begins = is_transition & (is_opened | is_shut)
    return (
        with_before.withColumn("begins", begins)
        .withColumn("is_ending", is_ending)
        .withColumn("number", F.when(is_transition | is_ending, F.col("counted")))
        .withColumn("start_ms", F.when(~begins, F.least("before.due_ms", "at_ms")))
        .where(F.col("number").isNotNull() | F.col("is_last"))
    )


def _aggregates() -> list[Column]:
    event, before = F.col("event"), F.col("before")
    is_closed = event == "CircuitClosed"
    is_probe = (event == "ProbeFailed") | (
        (event == "LimitReached")
        & F.coalesce(before["event"].isin("ProbeFailed", "LimitReached"), F.lit(False))
    )
    of_letters = event.isin("DeadLetterFailed", "LimitReached") & (
        before["event"] == "CircuitOpened"
    )
    probe = F.struct("sequence", F.col("start_ms").alias("due_ms"), "at_ms", "failures", "error")
    first = F.struct("sequence", "event", "at_ms", "lost", "message", "error")
    # The held message may have been revoked; the next to arrive was then the successful probe.
    good_ms = F.when(F.col("moves") > before["moves"], F.col("at_ms")).otherwise(F.col("start_ms"))
    gave_up = F.col("outcome").isin(*_GAVE_UP) & (before["event"] != "DeadLetterFailed")
    close = F.struct(
        "sequence",
        "at_ms",
        "lost",
        "outcome",
        "open_s",
        F.when(F.col("outcome") == "recovered", good_ms).alias("good_ms"),
        F.when(gave_up, F.col("start_ms")).alias("gave_up_ms"),
    )
    is_ending = F.col("is_ending")
    return [
        # An episode has at most one of these two.
        F.max(F.when(F.col("begins"), first)).alias("first"),
        F.max(F.when(is_closed, close)).alias("close"),
        *(
            F.max_by(name, F.when(F.col("is_transition"), F.col("sequence"))).alias(f"last_{name}")
            for name in ("at_ms", "due_ms", "sequence")
        ),
        # A record waits for its broker, so the least difference is nearest to that of the clocks.
        F.min(F.when(F.col("is_transition"), F.col("clock_ms"))).alias("clock_ms"),
        F.max(of_letters).alias("of_letters"),
        F.sort_array(F.collect_list(F.when(is_probe, probe))).alias("probes"),
        F.max(F.when(is_probe, F.col("start_ms"))).alias("failed_ms"),
        F.count(F.when(is_ending & (event == "DeadLettered"), 1)).alias("letters"),
        F.max(is_ending & F.col("exhausted")).alias("exhausted"),
        F.count(F.when(event == "DeadLetterFailed", 1)).alias("letters_failed"),
        *(F.max(name).alias(name) for name in ("stopped", "lost", "instance_ends_ms")),
    ]


def _classified(found: DataFrame) -> DataFrame:
    """Adds `kind`, `missing` and the bounds; drops the rows of an instance's last entry."""
    scope = Window.partitionBy(*_SCOPE).orderBy("number")
    first, close = F.col("first"), F.col("close")
    # The narrowest first, so that there is only one sort.
    known = (
        found.withColumn("following", F.lead("first.lost").over(scope))
        .withColumn("instance_lost", F.max("lost").over(Window.partitionBy(*_INSTANCE)))
        .withColumn("member_ends_ms", F.max("instance_ends_ms").over(Window.partitionBy(*_MEMBER)))
        .where(F.col("number").isNotNull())
    )
    kind = (
        F.when(first["event"] != "CircuitOpened", "left_censored")
        .when(close.isNotNull(), "closed")
        .when(F.col("following").isNotNull(), "close_missing")
        .when(F.col("stopped") > first["sequence"], "stopped")
        .when(F.col("member_ends_ms") > F.col("instance_ends_ms"), "restarted")
        .otherwise("open")
    )
    ends = F.coalesce(close["lost"], "following", "instance_lost")
    kinds = known.withColumn("kind", kind).withColumn("missing", ends - first["lost"])
    return kinds.withColumn("bounds", _bounds())


def _bounds() -> Column:
    """`lower_ms` and `upper_ms`; NULL if nothing is known."""
    first, close = F.col("first"), F.col("close")
    upper_ms = close["good_ms"] - first["at_ms"]
    gave_up_ms = F.when(F.col("exhausted"), close["gave_up_ms"])
    failed_ms = F.greatest("failed_ms", gave_up_ms) - first["at_ms"]
    lower_ms = F.greatest(F.coalesce(failed_ms, F.lit(0)), F.lit(0))
    of_letters = F.coalesce("of_letters", F.lit(False))
    is_known = (F.col("kind") != "left_censored") & (F.col("missing") == 0) & ~of_letters
    is_straight = F.coalesce(lower_ms <= upper_ms, F.lit(True))
    bounds = F.struct(lower_ms.alias("lower_ms"), upper_ms.alias("upper_ms"))
    return F.when(is_known & is_straight, bounds)


def _columns() -> list[Column]:
    first, close = F.col("first"), F.col("close")
    is_opened = first["event"] == "CircuitOpened"
    error = F.when(is_opened, first["error"])
    error_type = F.nullif(F.regexp_extract(error, _ERROR_TYPE, 1), F.lit(""))
    return [
        *(F.col(name) for name in _SCOPE if name != _HASH),
        *(first["sequence"].alias("sequence"), F.col("last_sequence")),
        F.col("kind"),
        F.when(is_opened, first["at_ms"]).alias("opened_at_ms"),
        F.col("last_at_ms"),
        close["at_ms"].alias("closed_at_ms"),
        F.when(close.isNull(), F.col("last_due_ms")).alias("retry_at_ms"),
        *(close[name].alias(name) for name in ("outcome", "open_s")),
        *(
            first["message"][name].alias(name)
            for name in ("message_topic", "message_partition", "message_offset")
        ),
        error.alias("error"),
        error_type.alias("error_type"),
        *(F.col(name) for name in ("probes", "letters", "letters_failed", "missing")),
        *(F.col("bounds")[name].alias(name) for name in ("lower_ms", "upper_ms")),
        F.col("clock_ms"),
        F.expr(date_of("timestamp_millis(first.at_ms)")).alias("date"),
    ]
