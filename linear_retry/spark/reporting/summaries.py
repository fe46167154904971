"""Summarises a lake in small tables, whose columns are in docs/spark/report.md.

Spark does all the counting; the driver gets at most `MAX_ROWS` of each table.
"""

from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from functools import reduce
from operator import add

import pandas as pd  # type: ignore[import-untyped]  # it has no types
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame
from pyspark.sql import functions as F  # noqa: N812  (its usual name)

from linear_retry.records.durations import MINUTE_MS
from linear_retry.spark.errors import JavaError, last_cause
from linear_retry.spark.history.tuning import Tuned, tune
from linear_retry.spark.lake.lake import DEAD_LETTERS, EPISODES, JOURNAL, Lake, LakeError
from linear_retry.spark.reporting import letters, outages
from linear_retry.spark.reporting.durations import durations
from linear_retry.spark.reporting.proposals import tabulated
from linear_retry.tuning.solver import Conditions

MAX_ROWS = 10_000
_MAX_BUCKETS = 60
_COUNTS = (
    *("outages", "recovered", "given_up", "left_line"),
    *("letters_exhausted", "letters_permanent", "letters_given_up"),
)
NOTABLE_EVENTS = (
    *("DataLost", "HandlerTooSlow", "Skipped", "LimitReached", "SentToRetry", "HandedOver"),
    *("DeadLetterFailed", "CommitFailed", "ClientReplaced", "RetentionTooShort"),
)
_BUCKETS_MS = tuple(minutes * MINUTE_MS for minutes in (1, 5, 15, 60, 180, 720, 1440))


@dataclass(frozen=True, slots=True)
class Summaries:
    """`tables` by name, and how many outages and letters there are: None without such a table."""

    tables: dict[str, pd.DataFrame]
    outages: int | None
    letters: int | None


@dataclass(frozen=True, slots=True)
class Estimates:
    """How durations are estimated, and what the proposed delays must do.

    The bounds are from so many `resamples`, drawn by `seed`; `probe_cost_s` and `conditions` are as
    of `tune`. `proposals` are what `tune` found with these; None if it has not run yet.
    """

    resamples: int
    seed: int
    probe_cost_s: float
    conditions: Conditions
    proposals: Sequence[Tuned] | None


def summaries(lake: Lake, estimates: Estimates, *, keys: bool) -> Summaries:
    """Summarises the lake; without `keys`, the letters' keys and exceptions' texts are left out.

    Raises `LakeError` if the lake has neither outages nor letters, or cannot be read.
    """
    with _read_errors(lake), ExitStack() as stack:
        blocked = _source(lake, EPISODES, outages.measured, "began_ms", stack)
        dead = _source(lake, DEAD_LETTERS, letters.distinct, "died_ms", stack)
        known = [each for each in (blocked, dead) if each is not None]
        if not known:
            raise LakeError(
                f"{lake.path}: there are neither outages nor dead letters to report; run "
                "`linear-retry spark ingest` first, and then `linear-retry spark episodes`"
            )
        bucket_ms, by_error = _bucket_ms(known), []
        tables: dict[str, pd.DataFrame] = {}
        if blocked is not None:
            tables |= _of_outages(blocked.rows, bucket_ms, estimates)
            by_error.append(outages.by_error(blocked.rows))
        if dead is not None:
            tables |= _of_letters(dead.rows, bucket_ms, keys)
            by_error.append(letters.by_error(dead.rows))
        tables["errors"] = _collect(_joined(by_error))
        journal = _table(lake, JOURNAL)
        if journal is not None:
            tables["events"] = _collect(_events(journal))
        if journal is not None and blocked is not None:
            tables["proposals"] = _proposals(lake.table(EPISODES), journal, estimates)
        return Summaries(tables, _count(blocked), _count(dead))


@dataclass(frozen=True, slots=True)
class _Source:
    rows: DataFrame
    count: int
    first_ms: int | None
    last_ms: int | None


def _count(source: _Source | None) -> int | None:
    return None if source is None else source.count


def _source(
    lake: Lake,
    name: str,
    prepare: Callable[[DataFrame], DataFrame],
    moment: str,
    stack: ExitStack,
) -> _Source | None:
    table = _table(lake, name)
    if table is None:
        return None
    # Computed once, for several summaries.
    rows = prepare(table).persist()
    stack.callback(rows.unpersist)
    (found,) = rows.agg(F.count("*"), F.min(moment), F.max(moment)).collect()
    return _Source(rows, *found)


def _of_outages(rows: DataFrame, bucket_ms: int, estimates: Estimates) -> dict[str, pd.DataFrame]:
    curves, quantiles = durations(rows, resamples=estimates.resamples, seed=estimates.seed)
    return {
        "groups": _collect(outages.by_group(rows)),
        "outages_over_time": _collect(outages.over_time(rows, bucket_ms)),
        "durations": curves.head(MAX_ROWS),
        "duration_quantiles": quantiles.head(MAX_ROWS),
    }


def _proposals(episodes: DataFrame, journal: DataFrame, estimates: Estimates) -> pd.DataFrame:
    price_s, conditions, found = (
        estimates.probe_cost_s,
        estimates.conditions,
        estimates.proposals,
    )
    if found is None:
        found = tune(episodes, price_s, conditions, journal=journal, seed=estimates.seed)
    return tabulated(found, price_s, conditions.cover).head(MAX_ROWS)


def _of_letters(rows: DataFrame, bucket_ms: int, keys: bool) -> dict[str, pd.DataFrame]:
    found = {
        "letters": _collect(letters.by_reason(rows, texts=keys)),
        "letters_over_time": _collect(letters.over_time(rows, bucket_ms)),
    }
    return found | ({"keys": _collect(letters.by_key(rows))} if keys else {})


def _joined(by_error: list[DataFrame]) -> DataFrame:
    """By group and error: how its outages ended, and the reasons of its letters."""
    both = reduce(lambda one, other: one.unionByName(other, allowMissingColumns=True), by_error)
    # If the lake has only one of the two tables, the other's columns are missing.
    missing = [name for name in _COUNTS if name not in both.columns]
    empty = (F.lit(None).cast("bigint").alias(name) for name in missing)
    counts = (F.coalesce(F.sum(name), F.lit(0)).alias(name) for name in _COUNTS)
    return (
        both.select("*", *empty)
        .groupBy("group", "error")
        .agg(*counts, F.min("first_ms").alias("first_ms"), F.max("last_ms").alias("last_ms"))
        .orderBy(F.desc(reduce(add, map(F.col, _COUNTS))), "group", "error")
    )


def _events(journal: DataFrame) -> DataFrame:
    """By group, how often each notable event happened; duplicate entries count once."""
    return (
        journal.where(F.col("problems").isNull() & F.col("event").isin(*NOTABLE_EVENTS))
        .groupBy("group", "event")
        .agg(
            F.count_distinct("event_id").alias("times"),
            F.min("at_ms").alias("first_ms"),
            F.max("at_ms").alias("last_ms"),
        )
        .orderBy(F.desc("times"), "group", "event")
    )


def _bucket_ms(sources: Iterable[_Source]) -> int:
    """Returns the shortest bucket with which there are not too many."""
    moments = [ms for each in sources for ms in (each.first_ms, each.last_ms) if ms is not None]
    span_ms = max(moments) - min(moments) if moments else 0
    days = -(-span_ms // (_BUCKETS_MS[-1] * _MAX_BUCKETS))
    fitting = (each for each in _BUCKETS_MS if span_ms <= each * _MAX_BUCKETS)
    return next(fitting, days * _BUCKETS_MS[-1])


def _collect(rows: DataFrame) -> pd.DataFrame:
    whole = {name: "Int64" for name, kind in rows.dtypes if kind in ("int", "bigint")}
    # Else a column of whole numbers becomes floats if one is missing.
    table: pd.DataFrame = rows.limit(MAX_ROWS).toPandas()
    table.attrs.clear()  # Spark Connect's own metrics, which no file can store
    return table.astype(whole)


def _table(lake: Lake, name: str) -> DataFrame | None:
    return lake.table(name) if lake.has(name) else None


@contextmanager
def _read_errors(lake: Lake) -> Iterator[None]:
    try:
        yield
    except (PySparkException, JavaError) as error:
        raise LakeError(f"{lake.path}: cannot be read ({last_cause(str(error))})") from error
