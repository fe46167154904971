"""The times of a distribution fit the outages that it is of."""

import pytest
from pyspark.sql import SparkSession

from linear_retry.spark import survival

pytestmark = pytest.mark.usefixtures("interpreted")


def test_outages_of_less_than_a_second_are_seen(spark: SparkSession) -> None:
    """The first time is before most of them end, and the last is the longest known."""
    rows = [("fast", number, 20.0 + number, 40.0 + number) for number in range(100)]
    rows += [("slow", number, 60_000.0, 90_000.0) for number in range(9)]
    schema = "group string, last_at_ms bigint, lower_ms double, upper_ms double"
    found = survival(spark.createDataFrame(rows, schema), resamples=2).collect()
    times = {name: [row.after_s for row in found if row.group == name] for name in ("fast", "slow")}
    assert times["fast"][0] < 0.04 < times["fast"][-1] == pytest.approx(0.139)
    assert (pytest.approx(1), pytest.approx(90)) == (times["slow"][0], times["slow"][-1])
