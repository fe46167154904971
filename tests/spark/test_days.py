"""Is a batch of many days written whole, though only some of them are written at once?"""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import pytest
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812  (its usual name)

from linear_retry.spark import DEAD_LETTERS, ingest
from linear_retry.spark.ingest import TABLES
from linear_retry.spark.letters import dead_letters
from tests.conftest import TopicFactory
from tests.dlq.letters import our_record
from tests.real_kafka import RealKafka

pytestmark = [pytest.mark.broker, pytest.mark.usefixtures("interpreted")]

_DAYS = 9
_SETTING = "spark.sql.maxConcurrentOutputFileWriters"


def test_a_batch_of_many_days_is_whole(
    spark: SparkSession,
    kafka: RealKafka,
    topic: TopicFactory,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Each letter is in its day once and each day is one file; the caller's settings stay."""

    def spread(records: DataFrame) -> DataFrame:
        day = F.date_add(F.lit("2026-11-01"), F.pmod("offset", F.lit(_DAYS)).cast("int"))
        return dead_letters(records).withColumn("date", day)

    monkeypatch.setitem(TABLES, DEAD_LETTERS, spread)
    letters, before = topic(), spark.conf.get(_SETTING)
    records = [our_record(number) for number in range(4 * _DAYS)]
    kafka.produce(letters, [(0, each.key, each.value, each.headers) for each in records])
    lake = tmp_path / "lake"
    ingest(spark, {"bootstrap.servers": kafka.bootstrap}, str(lake), dead_letters=[letters])
    found = spark.read.parquet(*map(str, (lake / DEAD_LETTERS).glob("batch=*")))
    rows = [(row.date.day, row.offset) for row in found.select("date", "offset").collect()]
    assert sorted((1 + n % _DAYS, n) for n in range(4 * _DAYS)) == sorted(rows)
    files = Counter(file.parent.name for file in lake.rglob("*.parquet"))
    assert {f"date=2026-11-{1 + n:02d}": 1 for n in range(_DAYS)} == files
    assert before == spark.conf.get(_SETTING)
