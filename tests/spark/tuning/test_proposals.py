"""Each group gets the delays that its outages call for."""

from __future__ import annotations

import random

import numpy as np
import pytest
from pyspark.sql import Row, SparkSession

from linear_retry.spark.tuning.proposals import proposals
from linear_retry.tuning.proposal import propose
from linear_retry.tuning.solver import Conditions, Solution
from tests.tuning.recorded import durations_ms, recorded

CURRENT_MS = (*[10_000] * 30, *[300_000] * 24, *[3_600_000] * 12)
CONDITIONS = Conditions(cover=0.95, max_delays=30)
PROBE_COST_MS = 20_000
COLUMNS = "group string, opened_at_ms bigint, last_at_ms bigint, lower_ms bigint, upper_ms bigint"
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
def proposed(spark: SparkSession) -> dict[str, Row]:
    """By group, in one go: a job takes seconds."""
    outages = [
        *_group("enough", 1, 300),
        *_group("few", 2, 30),
        *_group("members", 3, 60, members=4),
        ("unknown", 0, 0, None, None),
    ]
    table = spark.createDataFrame(outages, COLUMNS).repartition(2)
    rows = proposals(table, CURRENT_MS, PROBE_COST_MS, CONDITIONS).collect()
    return {row.group: row for row in rows}


def test_where_there_are_enough_delays_are_proposed(proposed: dict[str, Row]) -> None:
    """Those that two thirds call for, and what they save in the last third, with an interval."""
    row = proposed["enough"]
    known = recorded(durations_ms(1, 300), CURRENT_MS)
    expected = propose(known.chosen(np.arange(300) < 200), PROBE_COST_MS, CONDITIONS)
    assert isinstance(expected, Solution)
    assert ("proposed", 300, 200) == (row.verdict, row.outages, row.seen)
    assert list(expected.delays_ms) == row.delays_ms
    assert row.saved.low <= row.saved.mean <= row.saved.high
    before, after = row.current.total_ms, row.proposed.total_ms
    assert row.saved.mean == pytest.approx(before.mean - after.mean)
    assert row.proposed.covered.mean >= 0.85


def test_where_there_are_too_few_it_is_said(proposed: dict[str, Row]) -> None:
    """How many have ended, how many would have to, and what they are enough for."""
    row = proposed["few"]
    assert ("too few", 20, 59, 0.86) == (row.verdict, row.seen_ended, row.needed, row.cover)
    assert (None, None, None) == (row.delays_ms, row.current, row.saved)


def test_outages_at_the_same_time_are_seen_together(proposed: dict[str, Row]) -> None:
    """No outage that one member saw is held out for another one."""
    row = proposed["members"]
    assert (240, 160) == (row.outages, row.seen)


def test_of_outages_that_nothing_is_known_of_nothing_is_said(proposed: dict[str, Row]) -> None:
    """A group without bounds has no row."""
    assert {"enough", "few", "members"} == proposed.keys()


def test_partitions_and_order_change_nothing(spark: SparkSession, proposed: dict[str, Row]) -> None:
    """The same seed gives the same intervals to the last digit, however Spark has cut the rows."""
    outages = [*_group("members", 3, 60, members=4), *_group("enough", 1, 300)]
    random.Random(1).shuffle(outages)
    table = spark.createDataFrame(outages, COLUMNS).repartition(7)
    rows = proposals(table, CURRENT_MS, PROBE_COST_MS, CONDITIONS).collect()
    assert {group: proposed[group] for group in ("enough", "members")} == {
        row.group: row for row in rows
    }
