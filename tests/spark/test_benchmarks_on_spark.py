"""The benchmarks on Spark measure what they claim, whatever the times are."""

from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from benchmarks.letters import topic_of_letters
from benchmarks.on_spark import jvm_mib, parquet_bytes, shuffled_bytes
from benchmarks.spark_episodes import fill
from benchmarks.spark_ingest import copied, ingested
from examples.fleet.model import FLEET
from linear_retry.spark import JOURNAL, Lake, update_episodes
from tests.real_kafka import RealKafka

pytestmark = [pytest.mark.long, pytest.mark.usefixtures("interpreted")]


@pytest.mark.broker
def test_copy_and_ingest_read_the_same_letters(
    spark: SparkSession, kafka: RealKafka, tmp_path: Path
) -> None:
    """Each way leaves a row for each letter."""
    topic = topic_of_letters(kafka, 40)
    for way in (copied, ingested):
        table = way(spark, kafka.bootstrap, topic, str(tmp_path / way.__name__))
        assert 40 == spark.read.format("delta").load(table).count()
        assert parquet_bytes(table) > 0


def test_events_are_as_many_as_asked(spark: SparkSession, tmp_path: Path) -> None:
    """Copies of a fleet's weeks: all readable, no entry twice, of many members or of one."""
    lakes = [Lake(spark, f"{tmp_path}/{name}") for name in ("many", "one")]
    for lake, is_of_one in zip(lakes, (False, True), strict=True):
        fill(spark, lake.path, 2000, is_of_one=is_of_one, fleet=FLEET[:1])
        columns = lake.table(JOURNAL).select("group", "member", "instance", "sequence", "problems")
        rows = columns.collect()
        assert 2000 == len(rows) == len({(row.instance, row.sequence) for row in rows})
        assert not [row for row in rows if row.problems]
        assert is_of_one == (1 == len({(row.group, row.member) for row in rows}))
    before = shuffled_bytes(spark)
    assert sum(update_episodes(lakes[0]).values()) > 0
    assert shuffled_bytes(spark) > before
    assert jvm_mib(spark) > 0
