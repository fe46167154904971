"""Each group gets the delays that its outages call for."""

import random

import numpy as np
import pytest
from pyspark.sql import SparkSession
from pyspark.sql import functions as F  # noqa: N812  (its usual name)

from linear_retry.spark.history.tuning import Tuned, mean_waits_ms, proposals
from linear_retry.strategy.strategy import Strategy
from linear_retry.strategy.tuning.outages import ClocksApart
from linear_retry.strategy.tuning.proposal import TooFew, propose
from linear_retry.strategy.tuning.solver import Conditions
from tests.strategy.tuning.recorded import durations_ms, recorded

CURRENT_MS = (*[10_000] * 30, *[300_000] * 24, *[3_600_000] * 12)
CONDITIONS = Conditions(cover=0.95, max_delays=30)
PROBE_COST_MS = 20_000
COLUMNS = "group string, opened_at_ms bigint, last_at_ms bigint, lower_ms bigint, upper_ms bigint"
OTHERS = (
    *("'pod' AS member", "'life' AS instance", "'closed' AS kind", "'recovered' AS outcome"),
    "CAST(NULL AS bigint) AS retry_at_ms",
    *("CAST(NULL AS double) AS open_s", "'orders' AS message_topic", "0 AS message_partition"),
    *("0 AS message_offset", "'no' AS error", "'Error' AS error_type", "array() AS probes"),
    *("0 AS letters", "0 AS missing", "0 AS clock_ms"),
)
"""The other columns of `episodes` that make outages."""
WEEK_MS = 7 * 24 * 3_600_000


def _group(name: str, seed: int, count: int, members: int = 1) -> list[tuple[object, ...]]:
    """A week between two outages, so that only those of several members overlap."""
    known = recorded(durations_ms(seed, count), CURRENT_MS)
    return [
        (name, at * WEEK_MS + member, at * WEEK_MS + member + int(low), int(low), end)
        for at, (low, high) in enumerate(zip(known.lower_ms, known.upper_ms, strict=True))
        for end in [int(high) if np.isfinite(high) else None]
        for member in range(members)
    ]


@pytest.fixture(scope="module")
def proposed(spark: SparkSession) -> dict[str, Tuned]:
    """By group, in one go: a job takes seconds."""
    outages = [
        *_group("enough", 1, 300),
        *_group("few", 2, 30),
        *_group("members", 3, 60, members=4),
        ("unknown", 0, 0, None, None),
    ]
    table = spark.createDataFrame(outages, COLUMNS).repartition(2).selectExpr("*", *OTHERS)
    rows = proposals(table, CURRENT_MS, PROBE_COST_MS, CONDITIONS)
    return {row.group: row for row in rows}


def test_where_there_are_enough_delays_are_proposed(proposed: dict[str, Tuned]) -> None:
    """Those that two thirds call for, and what they save in the last third, with an interval."""
    found = proposed["enough"]
    known = recorded(durations_ms(1, 300), CURRENT_MS)
    expected = propose(known.chosen(np.arange(300) < 200), PROBE_COST_MS, CONDITIONS)
    assert isinstance(expected, tuple)
    assert (expected, 300, 200) == (found.proposal, found.outages, found.seen)
    assert found.comparison is not None
    proposal, saved = found.comparison.proposed, found.comparison.saved
    assert saved is not None
    assert found.comparison.both is not None
    assert 0 < saved.low <= saved.mean <= saved.high
    assert found.comparison.both.mean == pytest.approx(proposal.covered.mean)
    assert found.is_confirmed
    assert proposal.covered.mean >= 0.95


def test_too_few_outages_are_reported(proposed: dict[str, Tuned]) -> None:
    """How many have ended, how many would have to, and what they are enough for."""
    found = proposed["few"]
    assert (TooFew(20, 59, 0.86), None) == (found.proposal, found.comparison)


def test_outages_at_the_same_time_are_seen_together(proposed: dict[str, Tuned]) -> None:
    """No outage that one member saw is held out for another one."""
    found = proposed["members"]
    assert (60, 40) == (found.outages, found.seen)


def test_outages_without_bounds_have_no_result(proposed: dict[str, Tuned]) -> None:
    """A group without bounds has no result."""
    assert {"enough", "few", "members"} == proposed.keys()


def test_partitions_and_order_change_nothing(
    spark: SparkSession, proposed: dict[str, Tuned]
) -> None:
    """The same seed gives the same intervals to the last digit, however Spark has cut the rows."""
    outages = [*_group("members", 3, 60, members=4), *_group("enough", 1, 300)]
    random.Random(1).shuffle(outages)
    table = spark.createDataFrame(outages, COLUMNS).repartition(7).selectExpr("*", *OTHERS)
    rows = proposals(table, CURRENT_MS, PROBE_COST_MS, CONDITIONS)
    assert {"enough", "members"} == {row.group for row in rows}
    for row in rows:
        assert repr(proposed[row.group]) == repr(row)


def test_a_strategy_is_simulated_by_its_mean_waits() -> None:
    """Half of the jitter is added; what `max_elapsed` then prevents is no wait."""
    delays = [10, 20, 30]
    assert (10_000, 20_000, 30_000) == mean_waits_ms(Strategy(delays))
    assert (12_500, 25_000) == mean_waits_ms(Strategy(delays, jitter=0.5, max_elapsed=74))


def test_where_clocks_disagree_nothing_is_proposed(spark: SparkSession) -> None:
    """Two members an hour apart saw 60 outages, which counted as 120, enough for a proposal."""
    known = recorded(durations_ms(1, 60, median_s=5, spread=0.5), CURRENT_MS)
    rows = [
        ("billing", at * WEEK_MS, at * WEEK_MS + int(low), int(low), int(high))
        for at, (low, high) in enumerate(zip(known.lower_ms, known.upper_ms, strict=True))
    ]
    columns = ["'life' AS instance", *OTHERS[2:-1]]
    one = spark.createDataFrame(rows, COLUMNS).selectExpr(
        "*", "'pod-1' AS member", *columns, "0 AS clock_ms"
    )
    two = one.selectExpr(
        *("group", "opened_at_ms + 3600000 AS opened_at_ms", "last_at_ms + 3600000 AS last_at_ms"),
        *("lower_ms", "upper_ms", "'pod-2' AS member", "'other' AS instance"),
        *(each.split(" AS ")[-1] for each in OTHERS[2:]),
    )
    (found,) = proposals(one.unionByName(two), CURRENT_MS, PROBE_COST_MS, CONDITIONS)
    assert ("clocks apart", 120) == (found.verdict, found.outages)
    assert ClocksApart("pod-2", "pod-1", 3_600_000, 60) == found.proposal
    on_brokers = two.withColumn("clock_ms", F.lit(-3_600_000))
    (found,) = proposals(one.unionByName(on_brokers), CURRENT_MS, PROBE_COST_MS, CONDITIONS)
    assert ("too few", 60) == (found.verdict, found.outages)
