"""Each record is in its table once, unchanged, for every reader."""

from concurrent.futures import ThreadPoolExecutor, wait
from pathlib import Path

import pytest
from deltalake import DeltaTable
from pyspark.sql import SparkSession
from pyspark.sql import functions as F  # noqa: N812  (its usual name)
from pyspark.sql.streaming.readwriter import DataStreamReader

from linear_retry.errors import BrokerError
from linear_retry.events import CircuitClosed
from linear_retry.journal.entry import Entry, encode
from linear_retry.scope import Scope
from linear_retry.spark import DEAD_LETTERS, JOURNAL, Ingested, Lake, LakeError, ingest
from linear_retry.spark.ingestion.ingest import TABLES
from linear_retry.spark.session import CONNECTOR, SparkMissingError, with_settings
from linear_retry.spark.tables.sql import Projections
from tests.conftest import TopicFactory
from tests.kafka_operations import Record
from tests.real_kafka import RealKafka
from tests.spark.ingestion.ingested import IMPATIENT, places_of, rows_of, sample_letters
from tests.spark.killed import BATCH, ingest_until, places

pytestmark = [pytest.mark.broker, pytest.mark.usefixtures("interpreted")]

_LOOK_S = 0.05


class _EnoughError(Exception):
    pass


def _entry(sequence: int) -> Record:
    event = CircuitClosed(Scope(), "recovered", 1.5)
    entry = Entry("i", sequence, 1_795_253_536_810, "billing", "pod", event)
    return 0, entry.key, encode(entry), ()


def test_letters_and_entries_go_into_two_tables(
    spark: SparkSession, kafka: RealKafka, topic: TopicFactory, tmp_path: Path
) -> None:
    """What lies in the topics is in the tables, and a second call adds only what has come since."""
    letters, journal = topic(), topic()
    kafka.produce(letters, sample_letters(1))
    kafka.produce(journal, [_entry(1), (0, None, b'{"v":2}', ()), (0, None, b"\xff", ())])
    config, lake = {"bootstrap.servers": kafka.bootstrap}, str(tmp_path / "lake")
    first = ingest(spark, config, lake, dead_letters=[letters], journal=journal)
    assert (
        Ingested(DEAD_LETTERS, letters, 1, 0, 0),
        Ingested(JOURNAL, journal, 3, 2, 0),
    ) == first
    more = topic()
    kafka.produce(more, [(0, None, None, ())])
    again = ingest(spark, config, lake, dead_letters=[letters, more], journal=journal)
    assert [(0, 0), (1, 1), (0, 0)] == [(each.rows, each.unreadable) for each in again]
    (letter,) = [row for row in rows_of(lake, DEAD_LETTERS) if row["topic"] == letters]
    assert ("orders", 3, 0, "billing", "exhausted", 2, None) == tuple(
        letter[name]
        for name in (
            *("origin_topic", "origin_partition", "origin_offset"),
            *("group_id", "reason", "failures", "problems"),
        )
    )
    entry, newer, garbage = rows_of(lake, JOURNAL)
    assert ("CircuitClosed", "recovered", 1.5) == (
        entry["event"],
        entry["outcome"],
        entry["open_s"],
    )
    assert ["v is 2; this release reads 1"] == newer["problems"]
    assert [{"name": "value", "value": b"\xff"}] == garbage["garbled"]


@pytest.mark.long
@pytest.mark.usefixtures("only_places")
def test_killed_each_letter_is_there_once(
    spark: SparkSession, kafka: RealKafka, topic: TopicFactory, tmp_path: Path
) -> None:
    """Killed when a batch's file is written, and no commit names it, a reader finds whole batches
    at every moment, and in the end all of them. `make torture` kills at other points."""
    letters, lake = topic(partitions=2), str(tmp_path / "lake")
    config = {"bootstrap.servers": kafka.bootstrap}
    written = kafka.produce(letters, sample_letters(1))
    ingest(spark, config, lake, dead_letters=[letters])
    written += kafka.produce(letters, sample_letters(2 * BATCH, partitions=2, first=1))
    seen = set[int]()
    with ThreadPoolExecutor() as pool:
        killed = pool.submit(ingest_until, "written", kafka.bootstrap, letters, lake, {})
        while not wait([killed], _LOOK_S).done:
            seen.add(len(rows_of(lake, DEAD_LETTERS)))
        assert killed.result() is None
    assert {1} == {rows % BATCH for rows in seen}
    found = places_of(lake)
    assert len(set(found)) == len(found)
    assert set(found) <= set(written)
    assert 1 == len(found) % BATCH
    ingest(spark, config, lake, dead_letters=[letters])
    assert sorted(written) == places_of(lake)
    by_spark = Lake(spark, lake).table(DEAD_LETTERS).select("partition", "offset").collect()
    assert sorted(written) == sorted(map(tuple, by_spark))


def test_what_fails_says_why(
    spark: SparkSession,
    kafka: RealKafka,
    topic: TopicFactory,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A failure amid a batch is told in one line, and nothing of the batch is there."""

    def failing() -> Projections:
        (columns,) = places()
        return ((*columns, F.raise_error(F.lit("a bug")).cast("string").alias("bug")),)

    monkeypatch.setitem(TABLES, DEAD_LETTERS, failing)
    letters, lake = topic(), str(tmp_path / "lake")
    kafka.produce(letters, sample_letters(1))
    config = {"bootstrap.servers": kafka.bootstrap}
    message = "^topic-[0-9]+ cannot be ingested any further: .*a bug"
    with pytest.raises(LakeError, match=message) as raised:
        ingest(spark, config, lake, dead_letters=[letters])
    assert "\n" not in str(raised.value)
    assert [] == rows_of(lake, DEAD_LETTERS)


@pytest.mark.long
@pytest.mark.usefixtures("only_places")
def test_going_on_until_the_brokers_go_away(
    spark: SparkSession, own_kafka: RealKafka, tmp_path: Path
) -> None:
    """With `every_s` it does not end, and does not stand still with nobody told: when the Java
    client has given up, after two minutes unless its keys say less, it says so. Called again, each
    letter is there once. A first ingest forgot its first batch when it said how much is done."""
    lake, config = str(tmp_path / "lake"), {"bootstrap.servers": own_kafka.bootstrap}
    own_kafka.create_topic("dlq")
    seen = set[int]()
    written = own_kafka.produce("dlq", sample_letters(3))

    def watch(done: int, total: int) -> None:
        """More comes after the first batch, and the brokers go away after the second."""
        assert done <= total
        seen.add(done)
        if done == 3 and len(written) == 3:
            written.extend(own_kafka.produce("dlq", sample_letters(2, first=3)))
        elif len(written) == 5 and len(rows_of(lake, DEAD_LETTERS)) == 5:
            own_kafka.kill()

    with pytest.raises(BrokerError, match=r"^dlq cannot be ingested any further: .*Timeout") as it:
        ingest(spark, config | IMPATIENT, lake, dead_letters=["dlq"], every_s=0.5, progress=watch)
    assert "\n" not in str(it.value)
    assert 5 == max(seen)
    own_kafka.start()
    (again,) = ingest(spark, config, lake, dead_letters=["dlq"])
    assert 0 == again.rows
    assert sorted(written) == places_of(lake)


@pytest.mark.usefixtures("only_places")
def test_a_second_ingest_of_a_topic_is_refused(
    spark: SparkSession, kafka: RealKafka, topic: TopicFactory, tmp_path: Path
) -> None:
    """It says so, and the first goes on."""
    letters, lake = topic(), str(tmp_path / "lake")
    config = {"bootstrap.servers": kafka.bootstrap}
    written = kafka.produce(letters, sample_letters(2))
    refusals: list[str] = []

    def begin_another(done: int, total: int) -> None:
        if done == 2 and not refusals:
            with pytest.raises(LakeError) as refused:
                ingest(spark, config, lake, dead_letters=[letters])
            refusals.append(str(refused.value))
            written.extend(kafka.produce(letters, sample_letters(1, first=2)))
        elif len(rows_of(lake, DEAD_LETTERS)) == 3:
            raise _EnoughError

    with pytest.raises(_EnoughError):
        ingest(*(spark, config, lake), dead_letters=[letters], every_s=0.5, progress=begin_another)
    assert refusals[0].startswith(f"another ingest is adding the rows of '{letters}'; wait until")
    assert sorted(written) == places_of(lake)


@pytest.mark.long
@pytest.mark.usefixtures("only_places")
def test_small_batches_become_one_file(
    spark: SparkSession, kafka: RealKafka, topic: TopicFactory, tmp_path: Path
) -> None:
    """By the batch that makes one file too many: four here, and fifty by default."""
    letters, lake = topic(), str(tmp_path / "lake")
    written = kafka.produce(letters, sample_letters(6))
    config = {"bootstrap.servers": kafka.bootstrap}
    with with_settings(spark, {"spark.databricks.delta.autoCompact.minNumFiles": "4"}):
        ingest(spark, config, lake, dead_letters=[letters], max_offsets=1)
    history = DeltaTable(f"{lake}/{DEAD_LETTERS}").history()
    compacted = [each for each in history if each["operation"] == "OPTIMIZE"]
    assert ["4"] == [each["operationMetrics"]["numRemovedFiles"] for each in compacted]
    assert 3 == len(DeltaTable(f"{lake}/{DEAD_LETTERS}").file_uris())
    assert sorted(written) == places_of(lake)


def test_a_lake_that_cannot_be_written_is_refused(
    spark: SparkSession, kafka: RealKafka, topic: TopicFactory, tmp_path: Path
) -> None:
    """Reported before anything is read."""
    lake = tmp_path / "lake"
    lake.write_text("a file")
    with pytest.raises(LakeError, match="check the path and its permissions"):
        ingest(spark, {"bootstrap.servers": kafka.bootstrap}, str(lake), dead_letters=[topic()])


def test_an_empty_lake_says_so(spark: SparkSession, tmp_path: Path) -> None:
    """Whoever reads before anything is there is told what to do."""
    (tmp_path / DEAD_LETTERS).mkdir()
    for table in (DEAD_LETTERS, JOURNAL):
        with pytest.raises(LakeError, match="run `linear-retry spark ingest` first"):
            Lake(spark, str(tmp_path)).table(table)


def test_a_session_without_the_connector_says_so(
    spark: SparkSession,
    kafka: RealKafka,
    topic: TopicFactory,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """What Spark raises of a source that it has not becomes the setting that is missing.

    Avro is one that it knows as it knows Kafka, by the name of a package, and has not here.
    """
    of = DataStreamReader.format
    monkeypatch.setattr(DataStreamReader, "format", lambda self, _: of(self, "avro"))
    with pytest.raises(SparkMissingError, match=f"spark.jars.packages={CONNECTOR}"):
        ingest(spark, {"bootstrap.servers": kafka.bootstrap}, str(tmp_path), dead_letters=[topic()])
