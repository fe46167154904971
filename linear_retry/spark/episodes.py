"""Which episodes does the journal tell: how long was each circuit open, and what became of it?

Their columns are in docs/outages.md. An episode begins with `CircuitOpened` and ends with
`CircuitClosed` of the same scope in the same life (instance) of a member. What is not told is not
guessed; `kind` says so:

- `closed`: both are there.
- `close_missing`: the scope was opened again without having been closed.
- `stopped`, `restarted`: it was open when the consumer ended, or was followed by another life of
  its member without a word.
- `open`: nothing has come after it.
- `left_censored`: its beginning is not there.

`missing` counts the entries that were dropped within it. Of its length only bounds are known: it
lasted longer than `lower_ms`, the start of the last attempt that failed, and no longer than
`upper_ms`, the start of the first that did not, both since the first failure. Where it did not end
with `recovered`, there is no upper bound; neither where entries are missing, where the circuit
opened for a dead letter and not for an attempt, or where a clock went back.
"""

from __future__ import annotations

from pyspark.sql import Column, DataFrame, Window, WindowSpec
from pyspark.sql import functions as F  # noqa: N812  (its usual name)

KINDS = ("closed", "close_missing", "stopped", "restarted", "open", "left_censored")

LAST_MS = 253_402_300_799_999
"""The year 9999: what most readers of Parquet can hold."""

_MEMBER = ("group", "member")
_LIFE = (*_MEMBER, "instance")
_SCOPE = (*_LIFE, "scope_topic", "scope_partition")
_EPISODE = (*_SCOPE, "number")
_TRANSITIONS = (
    *("CircuitOpened", "ProbeFailed", "RetriedNow"),
    *("CircuitClosed", "DeadLetterFailed", "LimitReached"),
)
_ERROR_TYPE = "^<?([A-Za-z_][A-Za-z0-9_.]*)"


def episodes(journal: DataFrame) -> DataFrame:
    """One row for each episode in the table `journal`.

    All windows are of one member's entries or of a part of them, so that they share one shuffle.
    """
    found = _counted(_placed(_lives(journal))).groupBy(*_EPISODE).agg(*_told())
    return _judged(found).select(*_columns())


def _lives(journal: DataFrame) -> DataFrame:
    """Each entry once, with what is known of the life that it is of."""
    life, member = Window.partitionBy(*_LIFE), Window.partitionBy(*_MEMBER)
    in_order = life.orderBy("sequence", "topic", "partition", "offset")
    # Beyond that a difference of two times overflows, and Spark would end the job.
    readable = (
        journal.where(F.col("problems").isNull() & F.col("at_ms").between(0, LAST_MS))
        .withColumn(
            "retry_at_ms", F.when(F.col("retry_at_ms").between(0, LAST_MS), F.col("retry_at_ms"))
        )
        .repartition(*_MEMBER)
    )
    again = F.coalesce(F.lag("sequence").over(in_order) == F.col("sequence"), F.lit(False))
    once = readable.withColumn("again", again).where("NOT again")
    by_number = life.orderBy("sequence")
    is_transition = F.col("event").isin(*_TRANSITIONS)
    moves = F.count(F.when(F.col("event").isin("Revoked", "Lost"), 1))
    return once.select(
        "*",
        (F.col("sequence") - F.row_number().over(by_number)).alias("lost"),
        moves.over(_until_now(by_number)).alias("moves"),
        F.max(F.when(F.col("event") == "Stopped", F.col("sequence"))).over(life).alias("stopped"),
        F.max("at_ms").over(life).alias("life_ends_ms"),
        F.max("at_ms").over(member).alias("member_ends_ms"),
        *(
            F.max(is_transition & F.col(name).isNotNull()).over(life).alias(f"has_{name}")
            for name in ("scope_topic", "scope_partition")
        ),
    ).withColumn("life_lost", F.max("lost").over(life))


def _placed(lives: DataFrame) -> DataFrame:
    """Transitions and letters, the letters with the scope that their message falls in."""
    is_letter = F.col("event") == "DeadLettered"
    chosen = lives.where(F.col("event").isin(*_TRANSITIONS) | is_letter)
    return chosen.withColumns(
        {
            f"scope_{name}": F.when(
                is_letter, F.when(F.col(f"has_scope_{name}"), F.col(f"message_{name}"))
            ).otherwise(F.col(f"scope_{name}"))
            for name in ("topic", "partition")
        }
    )


def _counted(placed: DataFrame) -> DataFrame:
    """Each transition with the number of its episode, and with the transition before it there."""
    scope = Window.partitionBy(*_SCOPE).orderBy("sequence")
    is_transition = F.col("event") != "DeadLettered"
    # A whole row at a time: of single columns, a NULL would be passed over for an older value.
    due_ms = F.when(F.col("event") == "RetriedNow", F.col("at_ms")).otherwise(F.col("retry_at_ms"))
    told = F.struct("event", due_ms.alias("due_ms"), "moves")
    earlier = scope.rowsBetween(Window.unboundedPreceding, -1)
    before = F.last(F.when(is_transition, told), ignorenulls=True).over(earlier)
    with_before = placed.withColumn("before", before)
    is_shut = F.coalesce(F.col("before.event") == "CircuitClosed", F.lit(True))
    begins = is_transition & ((F.col("event") == "CircuitOpened") | is_shut)
    return (
        with_before.withColumn("is_transition", is_transition)
        .withColumn("begins", begins)
        .withColumn("number", F.count(F.when(begins, 1)).over(_until_now(scope)))
        .withColumn("start_ms", F.when(~begins, F.least("before.due_ms", "at_ms")))
        .where(is_transition | ~is_shut)
    )


def _told() -> list[Column]:
    """What the entries of one episode tell together."""
    event = F.col("event")
    first, last = (
        each(F.when(F.col("is_transition"), F.struct("sequence", *_KEPT)))
        for each in (F.min, F.max)
    )
    second = F.min(F.when(F.col("is_transition") & ~F.col("begins"), F.struct("sequence", "event")))
    is_probe = (event == "ProbeFailed") | (
        (event == "LimitReached")
        & F.coalesce(F.col("before.event").isin("ProbeFailed", "LimitReached"), F.lit(False))
        & ~F.col("begins")
    )
    probe = F.struct("sequence", F.col("start_ms").alias("due_ms"), "at_ms", "failures", "error")
    is_letter = event == "DeadLettered"
    return [
        first.alias("first"),
        last.alias("last"),
        second.alias("second"),
        F.array_sort(F.collect_list(F.when(is_probe, probe))).alias("probes"),
        F.max(F.when(is_probe, F.col("start_ms"))).alias("failed_ms"),
        F.count(F.when(is_letter, 1)).alias("letters"),
        F.count(F.when(is_letter & (F.col("reason") == "exhausted"), 1)).alias("exhausted"),
        F.count(F.when(event == "DeadLetterFailed", 1)).alias("letters_failed"),
        *(F.first(name).alias(name) for name in ("stopped", "life_lost")),
        *(F.first(name).alias(name) for name in ("life_ends_ms", "member_ends_ms")),
    ]


_KEPT = (
    *("event", "at_ms", "lost", "moves", "before", "start_ms", "outcome", "open_s"),
    *("message_topic", "message_partition", "message_offset", "error"),
)


def _judged(found: DataFrame) -> DataFrame:
    """With `kind`, `missing` and the bounds."""
    scope = Window.partitionBy(*_SCOPE).orderBy("number")
    first, last = F.col("first"), F.col("last")
    following = F.lead("first.lost").over(scope)
    is_opened, is_closed = first["event"] == "CircuitOpened", last["event"] == "CircuitClosed"
    ends = F.when(is_closed, last["lost"]).otherwise(F.coalesce(following, "life_lost"))
    kind = (
        F.when(~is_opened, "left_censored")
        .when(is_closed, "closed")
        .when(following.isNotNull(), "close_missing")
        .when(F.col("stopped") > first["sequence"], "stopped")
        .when(F.col("member_ends_ms") > F.col("life_ends_ms"), "restarted")
        .otherwise("open")
    )
    told = found.withColumn("kind", kind).withColumn("missing", ends - first["lost"])
    return told.withColumn("bounds", _bounds())


def _bounds() -> Column:
    """`lower_ms` and `upper_ms`; NULL where nothing is known."""
    first, last = F.col("first"), F.col("last")
    is_closed = F.col("kind") == "closed"
    # The held message may have been taken away; then the next to arrive was the good probe.
    moved = last["moves"] > last["before"]["moves"]
    good_ms = F.when(moved, last["at_ms"]).otherwise(last["start_ms"])
    upper_ms = F.when(is_closed & (last["outcome"] == "recovered"), good_ms - first["at_ms"])
    gave_up = (
        is_closed
        & (last["outcome"] == "dead-lettered")
        & (F.col("exhausted") > 0)
        & (last["before"]["event"] != "DeadLetterFailed")
    )
    failed_ms = F.greatest("failed_ms", F.when(gave_up, last["start_ms"])) - first["at_ms"]
    lower_ms = F.greatest(F.coalesce(failed_ms, F.lit(0)), F.lit(0))
    of_letters = F.coalesce(
        F.col("second.event").isin("DeadLetterFailed", "LimitReached"), F.lit(False)
    )
    is_known = (F.col("kind") != "left_censored") & (F.col("missing") == 0) & ~of_letters
    is_straight = F.coalesce(lower_ms <= upper_ms, F.lit(True))
    bounds = F.struct(lower_ms.alias("lower_ms"), upper_ms.alias("upper_ms"))
    return F.when(is_known & is_straight, bounds)


def _columns() -> list[Column]:
    first, last = F.col("first"), F.col("last")
    is_opened, is_closed = first["event"] == "CircuitOpened", last["event"] == "CircuitClosed"
    error = F.when(is_opened, first["error"])
    error_type = F.nullif(F.regexp_extract(error, _ERROR_TYPE, 1), F.lit(""))
    return [
        *(F.col(name) for name in _SCOPE),
        first["sequence"].alias("sequence"),
        F.col("kind"),
        F.when(is_opened, first["at_ms"]).alias("opened_at_ms"),
        last["at_ms"].alias("last_at_ms"),
        F.when(is_closed, last["at_ms"]).alias("closed_at_ms"),
        *(last[name].alias(name) for name in ("outcome", "open_s")),
        *(
            F.when(is_opened, first[name]).alias(name)
            for name in ("message_topic", "message_partition", "message_offset")
        ),
        error.alias("error"),
        error_type.alias("error_type"),
        *(F.col(name) for name in ("probes", "letters", "letters_failed", "missing")),
        *(F.col("bounds")[name].alias(name) for name in ("lower_ms", "upper_ms")),
    ]


def _until_now(window: WindowSpec) -> WindowSpec:
    return window.rowsBetween(Window.unboundedPreceding, Window.currentRow)
