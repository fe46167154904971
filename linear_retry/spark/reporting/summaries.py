"""Summarises a lake in small tables, whose columns are in docs/spark/report.md.

Spark does all the counting; the driver gets at most `MAX_ROWS` of each table.
"""

import json
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from functools import reduce
from operator import add
from typing import Any

import numpy as np
import pandas as pd  # type: ignore[import-untyped]  # it has no types
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame
from pyspark.sql import functions as F  # noqa: N812  (its usual name)

from linear_retry.records.durations import MINUTE_MS
from linear_retry.spark.history.tuning import Tuned, by_group, in_groups, tune
from linear_retry.spark.lake.lake import DEAD_LETTERS, EPISODES, JOURNAL, Lake, LakeError
from linear_retry.spark.reporting import letters, outages
from linear_retry.spark.session import JavaError, last_cause
from linear_retry.strategy.file import elements
from linear_retry.strategy.tuning.durations import bands
from linear_retry.strategy.tuning.held_out import Comparison
from linear_retry.strategy.tuning.outages import Numbers, Outages
from linear_retry.strategy.tuning.proposal import TooFew
from linear_retry.strategy.tuning.solver import Conditions

MAX_ROWS = 10_000
_MAX_BUCKETS = 60
_COUNTS = (
    *("outages", "recovered", "given_up", "left_line"),
    *("letters_exhausted", "letters_permanent", "letters_given_up"),
)
NOTABLE_EVENTS = (
    *("DataLost", "HandlerTooSlow", "Skipped", "LimitReached", "SentToRetry", "HandedOver"),
    *("DeadLetterFailed", "CommitFailed", "ClientReplaced"),
    *("RetentionTooShort", "HeldMessageAtRisk"),
)
_BUCKETS_MS = tuple(minutes * MINUTE_MS for minutes in (1, 5, 15, 60, 180, 720, 1440))

COLUMNS = (
    *("group", "outages", "seen", "verdict", "ended", "needed", "delays", "ends_after_s"),
    *("covers", "current_covers", "saved_s", "saved_low_s", "saved_high_s"),
    *("gap_from_s", "gap_until_s", "gap_share", "gap_cost_s", "gap_first_s", "gap_second_s"),
    *("probe_cost_s", "cover"),
)
SHARES = (0.5, 0.95, 0.99)
_POINTS = 80
_SHORTEST_MS = (10.0, 1000.0)
"""The limits of the first time: where outages take less than a second, it must be earlier."""
_CURVE = ("group", "after_s", "lasting", "low", "high")
_CURVE_SCHEMA = "group string, after_s double, lasting double, low double, high double"
_QUANTILES = ("group", "outages", "known_end", "ended", "after_s", "low_s", "high_s")


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


def tabulated(found: Iterable[Tuned], probe_cost_s: float, cover: float) -> pd.DataFrame:
    """A row for each group, with the price and the cover that its delays were made for."""
    rows = [_row(one) | {"probe_cost_s": probe_cost_s, "cover": cover} for one in found]
    return pd.DataFrame(rows, columns=COLUMNS)


def _row(one: Tuned) -> dict[str, Any]:
    row: dict[str, Any] = {"group": one.group, "outages": one.outages, "seen": one.seen}
    row |= {"verdict": one.verdict}
    if isinstance(one.proposal, TooFew):
        row |= {"ended": one.proposal.ended, "needed": one.proposal.needed}
    if isinstance(one.proposal, tuple):
        row |= {"delays": json.dumps(elements(one.proposal))}
        row |= {"ends_after_s": sum(one.proposal) / 1000}
    if one.comparison is not None:
        row |= _compared(one.comparison)
    if one.gap is not None:
        row |= {"gap_from_s": one.gap.from_ms / 1000, "gap_until_s": one.gap.until_ms / 1000}
        first_ms, second_ms = one.gap.attempts_ms
        row |= {"gap_share": one.gap.share, "gap_cost_s": one.gap.cost_ms / 1000}
        row |= {"gap_first_s": first_ms / 1000, "gap_second_s": second_ms / 1000}
    return row


def _compared(found: Comparison) -> dict[str, Any]:
    row = {"covers": found.proposed.covered.mean}
    if found.current is not None and found.saved is not None:
        row |= {"current_covers": found.current.covered.mean}
        saved = found.saved
        row |= {"saved_s": saved.mean / 1000}
        row |= {"saved_low_s": saved.low / 1000, "saved_high_s": saved.high / 1000}
    return row


def survival(outages: DataFrame, *, resamples: int = 100, seed: int = 1) -> DataFrame:
    """The share of each group's outages that last longer than a time, from their bounds.

    `outages`: rows of `group_outages`, or of `episodes`. A row for each of 80 times of a group:
    `group`, `after_s`, `lasting` (the share), and its bounds `low` and `high` with a confidence of
    95%, from so many `resamples`, drawn by `seed`. A group without known bounds has no rows.
    """

    def estimated(group: str, known: Outages) -> pd.DataFrame:
        at_ms, shares, _ = _estimated(known, resamples, seed)
        found = pd.DataFrame(np.column_stack([at_ms / 1000, shares]), columns=_CURVE[1:])
        found.insert(0, "group", group)
        return found

    return in_groups(outages, estimated, _CURVE_SCHEMA)


def durations(
    outages: DataFrame, *, resamples: int, seed: int
) -> tuple[pd.DataFrame, pd.DataFrame]:
    """The share of outages that last longer than each time, and when each share has ended.

    For each group that has outages with known bounds, most outages first; a time is missing if that
    share never ends.
    """

    def estimated(group: str, known: Outages) -> tuple[Any, ...]:
        at_ms, shares, ended_ms = _estimated(known, resamples, seed)
        ends = np.where(np.isfinite(ended_ms), ended_ms / 1000, np.nan)
        curve = np.column_stack([at_ms / 1000, shares])
        return group, len(known), known.ended, curve.tolist(), ends.tolist()

    found = sorted(by_group(outages, estimated), key=lambda each: -each[1])
    curves = [(group, *row) for group, _, _, curve, _ in found for row in curve]
    quantiles = [
        (*each, share, *row)
        for *each, _, ends in found
        for share, row in zip(SHARES, ends, strict=True)
    ]
    return pd.DataFrame(curves, columns=_CURVE), pd.DataFrame(quantiles, columns=_QUANTILES)


def _estimated(known: Outages, resamples: int, seed: int) -> tuple[Numbers, Numbers, Numbers]:
    at_ms, rng = _times_ms(known), np.random.default_rng(seed)
    return at_ms, *bands(known, at_ms, SHARES, rng=rng, resamples=resamples)


def _times_ms(known: Outages) -> Numbers:
    """Returns times on a logarithmic scale, from before most ends up to the last known bound."""
    ends_ms = known.upper_ms[np.isfinite(known.upper_ms)]
    last_ms = max(known.lower_ms.max(), ends_ms.max(initial=0))
    early_ms = np.quantile(ends_ms, 0.05) / 2 if len(ends_ms) else last_ms
    first_ms = np.clip(early_ms, *_SHORTEST_MS)
    return np.geomspace(first_ms, max(last_ms, 2 * first_ms), _POINTS)
