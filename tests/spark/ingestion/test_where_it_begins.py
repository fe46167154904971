"""An ingest begins after the rows that the table has, and reads only the topic that they are of."""

import shutil
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from linear_retry.errors import BrokerError
from linear_retry.spark import DEAD_LETTERS, Ingested, LakeError, ingest
from tests.conftest import TopicFactory
from tests.real_kafka import RealKafka
from tests.spark.ingestion.ingested import IMPATIENT, places_of, rows_of, sample_letters

pytestmark = [pytest.mark.broker, pytest.mark.usefixtures("interpreted")]

# Of a port where nobody speaks TLS, Spark's client learns nothing; librdkafka does not get the key.
_NO_ANSWER = IMPATIENT | {"kafka.security.protocol": "SSL"}


def test_what_is_gone_is_counted(
    spark: SparkSession, kafka: RealKafka, topic: TopicFactory, tmp_path: Path
) -> None:
    """Letters that retention or a purge has removed between two calls stop nothing."""
    letters, lake = topic(), str(tmp_path / "lake")
    config = {"bootstrap.servers": kafka.bootstrap}
    kafka.produce(letters, sample_letters(2))
    ingest(spark, config, lake, dead_letters=[letters])
    kafka.produce(letters, sample_letters(5))
    kafka.delete_records(letters, 0, 4)
    assert (Ingested(DEAD_LETTERS, letters, 3, 0, 2),) == ingest(
        spark, config, lake, dead_letters=[letters]
    )


def test_a_lake_of_another_topic_is_refused(
    spark: SparkSession, kafka: RealKafka, topic: TopicFactory, tmp_path: Path
) -> None:
    """A topic made again under its old name is another one: its offsets mean other letters."""
    letters, lake = topic(), str(tmp_path / "lake")
    config = {"bootstrap.servers": kafka.bootstrap}
    kafka.produce(letters, sample_letters(1))
    ingest(spark, config, lake, dead_letters=[letters])
    before = rows_of(lake, DEAD_LETTERS)
    kafka.delete_topic(letters)
    kafka.create_topic(letters)
    with pytest.raises(LakeError, match=f"rows of another topic '{letters}'"):
        ingest(spark, config, lake, dead_letters=[letters])
    assert before == rows_of(lake, DEAD_LETTERS)


@pytest.mark.usefixtures("only_places")
def test_without_its_checkpoint_it_goes_on_after_the_last_rows(
    spark: SparkSession, kafka: RealKafka, topic: TopicFactory, tmp_path: Path
) -> None:
    """The rows say how far each partition is, also where batches are now of another size."""
    letters, lake = topic(partitions=2), tmp_path / "lake"
    config = {"bootstrap.servers": kafka.bootstrap}
    written = kafka.produce(letters, sample_letters(3))
    ingest(spark, config, str(lake), dead_letters=[letters])
    shutil.rmtree(lake / "_ingest")
    written += kafka.produce(letters, sample_letters(5, partitions=2, first=3))
    (again,) = ingest(spark, config, str(lake), dead_letters=[letters], max_offsets=2)
    assert 5 == again.rows
    assert sorted(written) == places_of(str(lake))


@pytest.mark.long
@pytest.mark.usefixtures("only_places")
def test_a_checkpoint_that_says_nothing_yet_is_as_none(
    spark: SparkSession, kafka: RealKafka, topic: TopicFactory, tmp_path: Path
) -> None:
    """A run that ended before Spark had noted where it began made the next one begin at the
    beginning, and add all rows again."""
    letters, lake = topic(), tmp_path / "lake"
    config = {"bootstrap.servers": kafka.bootstrap}
    written = kafka.produce(letters, sample_letters(3))
    ingest(spark, config, str(lake), dead_letters=[letters])
    shutil.rmtree(lake / "_ingest")
    written += kafka.produce(letters, sample_letters(2, first=3))
    with pytest.raises(BrokerError):
        ingest(spark, config | _NO_ANSWER, str(lake), dead_letters=[letters])
    (checkpoint,) = (lake / "_ingest").glob("*/*/*/*")
    assert (checkpoint / "metadata").exists()
    assert not list(checkpoint.glob("sources/*/*"))
    (again,) = ingest(spark, config, str(lake), dead_letters=[letters])
    assert 2 == again.rows
    assert sorted(written) == places_of(str(lake))


@pytest.mark.usefixtures("only_places")
def test_a_table_that_was_deleted_is_made_anew(
    spark: SparkSession, kafka: RealKafka, topic: TopicFactory, tmp_path: Path
) -> None:
    """Deleted to ingest it again, a table got only the records that its checkpoint had not seen."""
    letters, lake = topic(), tmp_path / "lake"
    config = {"bootstrap.servers": kafka.bootstrap}
    written = kafka.produce(letters, sample_letters(3))
    ingest(spark, config, str(lake), dead_letters=[letters])
    shutil.rmtree(lake / DEAD_LETTERS)
    (again,) = ingest(spark, config, str(lake), dead_letters=[letters])
    assert 3 == again.rows
    assert sorted(written) == places_of(str(lake))
