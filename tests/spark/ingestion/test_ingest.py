"""Each record is in its table once, unchanged, for every reader."""

import shutil
from concurrent.futures import ThreadPoolExecutor, wait
from pathlib import Path
from typing import Any

import duckdb
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
from tests.dlq.sample_letters import our_record
from tests.kafka_operations import Record
from tests.real_kafka import RealKafka
from tests.spark.killed import BATCH, ingest_until, places

pytestmark = [pytest.mark.broker, pytest.mark.usefixtures("interpreted")]

_LOOK_S = 0.05
_IMPATIENT = {"kafka.default.api.timeout.ms": 1000, "kafka.request.timeout.ms": 500}
# Of a port where nobody speaks TLS, Spark's client learns nothing; librdkafka does not get the key.
_NO_ANSWER = _IMPATIENT | {"kafka.security.protocol": "SSL"}


class _EnoughError(Exception):
    pass


def _letters(count: int, partitions: int = 1, first: int = 0) -> list[Record]:
    records = [our_record(number) for number in range(first, first + count)]
    return [
        (number % partitions, each.key, each.value, each.headers)
        for number, each in enumerate(records)
    ]


def _entry(sequence: int) -> Record:
    event = CircuitClosed(Scope(), "recovered", 1.5)
    entry = Entry("i", sequence, 1_795_253_536_810, "billing", "pod", event)
    return 0, entry.key, encode(entry), ()


def _rows(lake: str, table: str) -> list[dict[str, Any]]:
    """As whoever finds the files reads them."""
    return list(DeltaTable(f"{lake}/{table}").to_pyarrow_table().to_pylist())


def _places(lake: str) -> list[tuple[int, int]]:
    """Partition and offset of each letter, on which two readers without Spark must agree."""
    found = sorted((row["partition"], row["offset"]) for row in _rows(lake, DEAD_LETTERS))
    letters = DeltaTable(f"{lake}/{DEAD_LETTERS}").to_pyarrow_dataset()
    with duckdb.connect() as duck:
        duck.register("letters", letters)
        duck.execute('SELECT "partition", "offset" FROM letters ORDER BY ALL')
        assert duck.fetchall() == found
    return found


def test_letters_and_entries_go_into_two_tables(
    spark: SparkSession, kafka: RealKafka, topic: TopicFactory, tmp_path: Path
) -> None:
    """What lies in the topics is in the tables, and a second call adds only what has come since."""
    letters, journal = topic(), topic()
    kafka.produce(letters, _letters(1))
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
    (letter,) = [row for row in _rows(lake, DEAD_LETTERS) if row["topic"] == letters]
    assert ("orders", 3, 0, "billing", "exhausted", 2, None) == tuple(
        letter[name]
        for name in (
            *("origin_topic", "origin_partition", "origin_offset"),
            *("group_id", "reason", "failures", "problems"),
        )
    )
    entry, newer, garbage = _rows(lake, JOURNAL)
    assert ("CircuitClosed", "recovered", 1.5) == (
        entry["event"],
        entry["outcome"],
        entry["open_s"],
    )
    assert ["v is 2; this release reads 1"] == newer["problems"]
    assert [{"name": "value", "value": b"\xff"}] == garbage["garbled"]


def test_killed_each_letter_is_there_once(
    spark: SparkSession,
    kafka: RealKafka,
    topic: TopicFactory,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Killed when a batch's file is written, and no commit names it, a reader finds whole batches
    at every moment, and in the end all of them. `make torture` kills at other points."""
    monkeypatch.setitem(TABLES, DEAD_LETTERS, places)
    letters, lake = topic(partitions=2), str(tmp_path / "lake")
    config = {"bootstrap.servers": kafka.bootstrap}
    written = kafka.produce(letters, _letters(1))
    ingest(spark, config, lake, dead_letters=[letters])
    written += kafka.produce(letters, _letters(2 * BATCH, partitions=2, first=1))
    seen = set[int]()
    with ThreadPoolExecutor() as pool:
        killed = pool.submit(ingest_until, "written", kafka.bootstrap, letters, lake, {})
        while not wait([killed], _LOOK_S).done:
            seen.add(len(_rows(lake, DEAD_LETTERS)))
        assert killed.result() is None
    assert {1} == {rows % BATCH for rows in seen}
    found = _places(lake)
    assert len(set(found)) == len(found)
    assert set(found) <= set(written)
    assert 1 == len(found) % BATCH
    ingest(spark, config, lake, dead_letters=[letters])
    assert sorted(written) == _places(lake)
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
    kafka.produce(letters, _letters(1))
    config = {"bootstrap.servers": kafka.bootstrap}
    message = "^topic-[0-9]+ cannot be ingested any further: .*a bug"
    with pytest.raises(LakeError, match=message) as raised:
        ingest(spark, config, lake, dead_letters=[letters])
    assert "\n" not in str(raised.value)
    assert [] == _rows(lake, DEAD_LETTERS)


def test_going_on_until_the_brokers_go_away(
    spark: SparkSession, own_kafka: RealKafka, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With `every_s` it does not end, and does not stand still with nobody told: when the Java
    client has given up, after two minutes unless its keys say less, it says so. Called again, each
    letter is there once. A first ingest forgot its first batch when it said how much is done."""
    monkeypatch.setitem(TABLES, DEAD_LETTERS, places)
    lake, config = str(tmp_path / "lake"), {"bootstrap.servers": own_kafka.bootstrap}
    own_kafka.create_topic("dlq")
    seen = set[int]()
    written = own_kafka.produce("dlq", _letters(3))

    def watch(done: int, total: int) -> None:
        """More comes after the first batch, and the brokers go away after the second."""
        assert done <= total
        seen.add(done)
        if done == 3 and len(written) == 3:
            written.extend(own_kafka.produce("dlq", _letters(2, first=3)))
        elif len(written) == 5 and len(_rows(lake, DEAD_LETTERS)) == 5:
            own_kafka.kill()

    with pytest.raises(BrokerError, match=r"^dlq cannot be ingested any further: .*Timeout") as it:
        ingest(spark, config | _IMPATIENT, lake, dead_letters=["dlq"], every_s=0.5, progress=watch)
    assert "\n" not in str(it.value)
    assert 5 == max(seen)
    own_kafka.start()
    (again,) = ingest(spark, config, lake, dead_letters=["dlq"])
    assert 0 == again.rows
    assert sorted(written) == _places(lake)


def test_what_is_gone_is_counted(
    spark: SparkSession, kafka: RealKafka, topic: TopicFactory, tmp_path: Path
) -> None:
    """Letters that retention or a purge has removed between two calls stop nothing."""
    letters, lake = topic(), str(tmp_path / "lake")
    config = {"bootstrap.servers": kafka.bootstrap}
    kafka.produce(letters, _letters(2))
    ingest(spark, config, lake, dead_letters=[letters])
    kafka.produce(letters, _letters(5))
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
    kafka.produce(letters, _letters(1))
    ingest(spark, config, lake, dead_letters=[letters])
    before = _rows(lake, DEAD_LETTERS)
    kafka.delete_topic(letters)
    kafka.create_topic(letters)
    with pytest.raises(LakeError, match=f"rows of another topic '{letters}'"):
        ingest(spark, config, lake, dead_letters=[letters])
    assert before == _rows(lake, DEAD_LETTERS)


def test_without_its_checkpoint_it_goes_on_after_the_last_rows(
    spark: SparkSession,
    kafka: RealKafka,
    topic: TopicFactory,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The rows say how far each partition is, also where batches are now of another size."""
    monkeypatch.setitem(TABLES, DEAD_LETTERS, places)
    letters, lake = topic(partitions=2), tmp_path / "lake"
    config = {"bootstrap.servers": kafka.bootstrap}
    written = kafka.produce(letters, _letters(3))
    ingest(spark, config, str(lake), dead_letters=[letters])
    shutil.rmtree(lake / "_ingest")
    written += kafka.produce(letters, _letters(5, partitions=2, first=3))
    (again,) = ingest(spark, config, str(lake), dead_letters=[letters], max_offsets=2)
    assert 5 == again.rows
    assert sorted(written) == _places(str(lake))


def test_a_checkpoint_that_says_nothing_yet_is_as_none(
    spark: SparkSession,
    kafka: RealKafka,
    topic: TopicFactory,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A run that ended before Spark had noted where it began made the next one begin at the
    beginning, and add all rows again."""
    monkeypatch.setitem(TABLES, DEAD_LETTERS, places)
    letters, lake = topic(), tmp_path / "lake"
    config = {"bootstrap.servers": kafka.bootstrap}
    written = kafka.produce(letters, _letters(3))
    ingest(spark, config, str(lake), dead_letters=[letters])
    shutil.rmtree(lake / "_ingest")
    written += kafka.produce(letters, _letters(2, first=3))
    with pytest.raises(BrokerError):
        ingest(spark, config | _NO_ANSWER, str(lake), dead_letters=[letters])
    (checkpoint,) = (lake / "_ingest").glob("*/*/*/*")
    assert (checkpoint / "metadata").exists()
    assert not list(checkpoint.glob("sources/*/*"))
    (again,) = ingest(spark, config, str(lake), dead_letters=[letters])
    assert 2 == again.rows
    assert sorted(written) == _places(str(lake))


def test_a_table_that_was_deleted_is_made_anew(
    spark: SparkSession,
    kafka: RealKafka,
    topic: TopicFactory,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Deleted to ingest it again, a table got only the records that its checkpoint had not seen."""
    monkeypatch.setitem(TABLES, DEAD_LETTERS, places)
    letters, lake = topic(), tmp_path / "lake"
    config = {"bootstrap.servers": kafka.bootstrap}
    written = kafka.produce(letters, _letters(3))
    ingest(spark, config, str(lake), dead_letters=[letters])
    shutil.rmtree(lake / DEAD_LETTERS)
    (again,) = ingest(spark, config, str(lake), dead_letters=[letters])
    assert 3 == again.rows
    assert sorted(written) == _places(str(lake))


def test_a_second_ingest_of_a_topic_is_refused(
    spark: SparkSession,
    kafka: RealKafka,
    topic: TopicFactory,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """It says so, and the first goes on."""
    monkeypatch.setitem(TABLES, DEAD_LETTERS, places)
    letters, lake = topic(), str(tmp_path / "lake")
    config = {"bootstrap.servers": kafka.bootstrap}
    written = kafka.produce(letters, _letters(2))
    refusals: list[str] = []

    def begin_another(done: int, total: int) -> None:
        if done == 2 and not refusals:
            with pytest.raises(LakeError) as refused:
                ingest(spark, config, lake, dead_letters=[letters])
            refusals.append(str(refused.value))
            written.extend(kafka.produce(letters, _letters(1, first=2)))
        elif len(_rows(lake, DEAD_LETTERS)) == 3:
            raise _EnoughError

    with pytest.raises(_EnoughError):
        ingest(*(spark, config, lake), dead_letters=[letters], every_s=0.5, progress=begin_another)
    assert refusals[0].startswith(f"another ingest is adding the rows of '{letters}'; wait until")
    assert sorted(written) == _places(lake)


def test_small_batches_become_one_file(
    spark: SparkSession,
    kafka: RealKafka,
    topic: TopicFactory,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """By the batch that makes one file too many: four here, and fifty by default."""
    monkeypatch.setitem(TABLES, DEAD_LETTERS, places)
    letters, lake = topic(), str(tmp_path / "lake")
    written = kafka.produce(letters, _letters(6))
    config = {"bootstrap.servers": kafka.bootstrap}
    with with_settings(spark, {"spark.databricks.delta.autoCompact.minNumFiles": "4"}):
        ingest(spark, config, lake, dead_letters=[letters], max_offsets=1)
    history = DeltaTable(f"{lake}/{DEAD_LETTERS}").history()
    compacted = [each for each in history if each["operation"] == "OPTIMIZE"]
    assert ["4"] == [each["operationMetrics"]["numRemovedFiles"] for each in compacted]
    assert 3 == len(DeltaTable(f"{lake}/{DEAD_LETTERS}").file_uris())
    assert sorted(written) == _places(lake)


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
