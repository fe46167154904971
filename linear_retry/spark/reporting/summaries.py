"""Which small tables does a whole lake come to?

Their columns are in docs/report.md. All that is counted is counted by Spark; of each table the
driver gets `MOST_ROWS` at most.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from functools import reduce
from operator import add

import pandas as pd  # type: ignore[import-untyped]  # it has no types
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame
from pyspark.sql import functions as F  # noqa: N812  (its usual name)

from linear_retry.spark.episodes import OUTAGES
from linear_retry.spark.errors import JavaError, cause
from linear_retry.spark.lake.lake import DEAD_LETTERS, JOURNAL, Lake, LakeError
from linear_retry.spark.reporting import durations, events, letters, outages

MOST_ROWS = 10_000
_MOST_STRETCHES = 60
_COUNTS = (
    *("outages", "recovered", "given_up"),
    *("letters_exhausted", "letters_permanent", "letters_given_up"),
)
_MINUTE_MS = 60_000
_STRETCHES_MS = tuple(minutes * _MINUTE_MS for minutes in (1, 5, 15, 60, 180, 720, 1440))


@dataclass(frozen=True, slots=True)
class Summaries:
    """`tables` by name, without those whose source the lake does not have; and how many there are.

    `outages` and `letters` are None where the lake has no such table.
    """

    tables: dict[str, pd.DataFrame]
    outages: int | None
    letters: int | None


def summaries(lake: Lake, *, keys: bool, resamples: int, seed: int) -> Summaries:
    """Raises `LakeError` where the lake has neither outages nor letters, or cannot be read.

    Without `keys`, neither the letters' keys nor the texts of their exceptions are asked for.
    """
    with _reading(lake), ExitStack() as until:
        blocked = _source(lake, OUTAGES, outages.told, "began_ms", until)
        dead = _source(lake, DEAD_LETTERS, letters.told, "died_ms", until)
        known = [each for each in (blocked, dead) if each is not None]
        if not known:
            raise LakeError(
                f"{lake.path}: there are neither outages nor dead letters to report; run "
                "`linear-retry spark ingest` first, and then `linear-retry spark outages`"
            )
        stretch_ms, by_error = _stretch_ms(known), []
        tables: dict[str, pd.DataFrame] = {}
        if blocked is not None:
            tables |= _of_outages(blocked.rows, stretch_ms, resamples, seed, until)
            by_error.append(outages.by_error(blocked.rows))
        if dead is not None:
            tables |= _of_letters(dead.rows, stretch_ms, keys)
            by_error.append(letters.by_error(dead.rows))
        tables["errors"] = _small(_joined(by_error))
        journal = _table(lake, JOURNAL)
        if journal is not None:
            tables["events"] = _small(events.by_event(journal))
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
    told: Callable[[DataFrame], DataFrame],
    moment: str,
    until: ExitStack,
) -> _Source | None:
    table = _table(lake, name)
    if table is None:
        return None
    rows = until.enter_context(_kept(told(table)))
    asked = (F.count("*").alias("count"), F.min(moment).alias("first"), F.max(moment).alias("last"))
    (found,) = rows.agg(*asked).collect()
    return _Source(rows, found["count"], found["first"], found["last"])


def _of_outages(
    rows: DataFrame, stretch_ms: int, resamples: int, seed: int, until: ExitStack
) -> dict[str, pd.DataFrame]:
    found = until.enter_context(_kept(durations.estimated(rows, resamples=resamples, seed=seed)))
    return {
        "groups": _small(outages.by_group(rows)),
        "outages_over_time": _small(outages.over_time(rows, stretch_ms)),
        "durations": _small(durations.curves(found)),
        "duration_quantiles": _small(durations.ends(found)),
    }


def _of_letters(rows: DataFrame, stretch_ms: int, keys: bool) -> dict[str, pd.DataFrame]:
    found = {
        "letters": _small(letters.by_reason(rows, texts=keys)),
        "letters_over_time": _small(letters.over_time(rows, stretch_ms)),
    }
    return found | ({"keys": _small(letters.by_key(rows))} if keys else {})


def _joined(by_error: list[DataFrame]) -> DataFrame:
    """By group and error: what became of its outages, and for what reasons it has letters."""
    both = reduce(lambda one, other: one.unionByName(other, allowMissingColumns=True), by_error)
    # Where the lake has but one of the two tables, the other's columns are missing from both.
    missing = [name for name in _COUNTS if name not in both.columns]
    empty = (F.lit(None).cast("bigint").alias(name) for name in missing)
    counts = (F.coalesce(F.sum(name), F.lit(0)).alias(name) for name in _COUNTS)
    return (
        both.select("*", *empty)
        .groupBy("group", "error")
        .agg(*counts, F.min("first_ms").alias("first_ms"), F.max("last_ms").alias("last_ms"))
        .orderBy(F.desc(reduce(add, map(F.col, _COUNTS))), "group", "error")
    )


def _stretch_ms(sources: Iterable[_Source]) -> int:
    """The shortest one of which not too many cover all that is known."""
    moments = [ms for each in sources for ms in (each.first_ms, each.last_ms) if ms is not None]
    span_ms = max(moments) - min(moments) if moments else 0
    days = -(-span_ms // (_STRETCHES_MS[-1] * _MOST_STRETCHES))
    fitting = (each for each in _STRETCHES_MS if span_ms <= each * _MOST_STRETCHES)
    return next(fitting, days * _STRETCHES_MS[-1])


def _small(rows: DataFrame) -> pd.DataFrame:
    whole = {name: "Int64" for name, kind in rows.dtypes if kind in ("int", "bigint")}
    # Else a column of whole numbers would become fractions where one of them is missing.
    table: pd.DataFrame = rows.limit(MOST_ROWS).toPandas()
    table.attrs.clear()  # Spark Connect's own figures, which no file can hold
    return table.astype(whole)


def _table(lake: Lake, name: str) -> DataFrame | None:
    try:
        return lake.table(name)
    except LakeError:
        return None


@contextmanager
def _kept(rows: DataFrame) -> Iterator[DataFrame]:
    """What several summaries are made of is computed once."""
    kept = rows.persist()
    try:
        yield kept
    finally:
        kept.unpersist()


@contextmanager
def _reading(lake: Lake) -> Iterator[None]:
    try:
        yield
    except (PySparkException, JavaError) as error:
        raise LakeError(f"{lake.path}: cannot be read ({cause(str(error))})") from error
