"""Each record is in its table once, unchanged, for every reader."""

import shutil
import subprocess
import sys
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path
from typing import Any

import duckdb
import pyarrow.dataset  # type: ignore[import-untyped]  # it has no types
import pytest
from pyspark.sql import SparkSession
from pyspark.sql import functions as F  # noqa: N812  (its usual name)
from pyspark.sql.streaming.readwriter import DataStreamReader

from linear_retry.errors import BrokerError
from linear_retry.events import CircuitClosed
from linear_retry.journal.entry import Entry, encode
from linear_retry.scope import Scope
from linear_retry.spark import DEAD_LETTERS, JOURNAL, Ingested, Lake, LakeError, ingest
from linear_retry.spark.ingestion.ingest import TABLES
from linear_retry.spark.session import CONNECTOR, SparkMissingError
from linear_retry.spark.tables.sql import Projections
from tests.conftest import TopicFactory
from tests.dlq.sample_letters import our_record
from tests.kafka_operations import Record
from tests.real_kafka import RealKafka
from tests.spark.killed import BATCH, POINTS, places

pytestmark = [pytest.mark.broker, pytest.mark.usefixtures("interpreted")]

_KILL_LIMIT_S = 300
_DAYS = 9
"""More than a task writes at once."""
_SETTING = "spark.sql.maxConcurrentOutputFileWriters"


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
    found = pyarrow.dataset.dataset(f"{lake}/{table}", partitioning="hive")
    return list(found.to_table().to_pylist())


def _places(lake: str) -> list[tuple[int, int]]:
    """Partition and offset of each letter, on which two readers of files must agree."""
    found = sorted((row["partition"], row["offset"]) for row in _rows(lake, DEAD_LETTERS))
    glob = f"'{lake}/{DEAD_LETTERS}/**/*.parquet'"
    with duckdb.connect() as duck:
        duck.execute(f'SELECT "partition", "offset" FROM read_parquet({glob}) ORDER BY ALL')
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


def _killed(bootstrap: str, topic: str, point: str, lake: str) -> None:
    """An ingest by a process of its own, which ends at this point."""
    done = subprocess.run(
        [sys.executable, "-m", "tests.spark.killed", point, bootstrap, topic, lake],
        capture_output=True,
        text=True,
        check=False,
        timeout=_KILL_LIMIT_S,
        start_new_session=True,
    )
    assert -9 == done.returncode, done.stderr


def test_killed_at_any_point_each_letter_is_there_once(
    spark: SparkSession,
    kafka: RealKafka,
    topic: TopicFactory,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Killed before, amid and after the writing of a batch, the tables read the same in the end."""
    monkeypatch.setitem(TABLES, DEAD_LETTERS, places)
    letters, begun = topic(partitions=2), str(tmp_path / "lake")
    config = {"bootstrap.servers": kafka.bootstrap}
    written = kafka.produce(letters, _letters(1))
    ingest(spark, config, begun, dead_letters=[letters])
    written += kafka.produce(letters, _letters(2 * BATCH, partitions=2, first=1))
    lakes = [shutil.copytree(begun, f"{begun}-{number}") for number in range(len(POINTS))]
    with ThreadPoolExecutor() as pool:  # a JVM takes long to begin
        list(pool.map(partial(_killed, kafka.bootstrap, letters), POINTS, lakes))
    for lake in lakes:
        found = _places(lake)
        assert len(set(found)) == len(found)
        assert set(found) < set(written)
        ingest(spark, config, lake, dead_letters=[letters])
        assert sorted(written) == _places(lake)
        by_spark = Lake(spark, lake).table(DEAD_LETTERS).select("partition", "offset").collect()
        assert sorted(written) == sorted(map(tuple, by_spark))


class _Failing(Lake):
    """A lake in which nothing can be published."""

    error: Exception

    def publish(self, unfinished: str, target: str) -> None:
        raise _Failing.error


@pytest.mark.parametrize(
    ("error", "message"),
    [
        (LakeError("the disk is full"), "^the disk is full$"),
        (ValueError("a bug"), "^topic-[0-9]+ cannot be ingested any further: .*a bug"),
    ],
)
def test_what_fails_says_why(
    error: Exception,
    message: str,
    spark: SparkSession,
    kafka: RealKafka,
    topic: TopicFactory,
    tmp_path: Path,
) -> None:
    """A failure amid a batch is told in one line, and nothing of the batch is there."""
    letters, lake = topic(), str(tmp_path / "lake")
    kafka.produce(letters, _letters(1))
    _Failing.error = error
    config = {"bootstrap.servers": kafka.bootstrap}
    with pytest.raises(LakeError, match=message) as raised:
        ingest(spark, config, _Failing(spark, lake), dead_letters=[letters])
    assert "\n" not in str(raised.value)
    assert [] == _rows(lake, DEAD_LETTERS)


def test_going_on_until_the_brokers_go_away(
    spark: SparkSession, own_kafka: RealKafka, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With `every_s` it does not end, and does not stand still with nobody told: when the Java
    client has given up, after two minutes unless its keys say less, it says so. Called again, each
    letter is there once."""
    monkeypatch.setitem(TABLES, DEAD_LETTERS, places)
    lake, config = str(tmp_path / "lake"), {"bootstrap.servers": own_kafka.bootstrap}
    impatient = {"kafka.default.api.timeout.ms": 1000, "kafka.request.timeout.ms": 500}
    own_kafka.create_topic("dlq")
    written = own_kafka.produce("dlq", _letters(3))

    def watch(done: int, total: int) -> None:
        """More comes after the first batch, and the brokers go away after the second."""
        assert done <= total
        if done == 3 and len(written) == 3:
            written.extend(own_kafka.produce("dlq", _letters(2, first=3)))
        elif len(written) == 5 and len(_rows(lake, DEAD_LETTERS)) == 5:
            own_kafka.kill()

    with pytest.raises(BrokerError, match=r"^dlq cannot be ingested any further: .*Timeout") as it:
        ingest(spark, config | impatient, lake, dead_letters=["dlq"], every_s=0.5, progress=watch)
    assert "\n" not in str(it.value)
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


def test_rows_without_a_checkpoint_are_refused(
    spark: SparkSession, kafka: RealKafka, topic: TopicFactory, tmp_path: Path
) -> None:
    """Begun again, each letter would be there twice."""
    letters, lake = topic(), tmp_path / "lake"
    place = lake / DEAD_LETTERS / f"batch={letters}@00000000"
    place.mkdir(parents=True)
    with pytest.raises(LakeError, match="their progress is unknown"):
        ingest(spark, {"bootstrap.servers": kafka.bootstrap}, str(lake), dead_letters=[letters])


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
    (tmp_path / DEAD_LETTERS / "batch=of none").mkdir(parents=True)
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


def test_a_batch_of_many_days_is_whole(
    spark: SparkSession,
    kafka: RealKafka,
    topic: TopicFactory,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Each letter is in its day once and each day is one file; the caller's settings stay."""

    def spread() -> Projections:
        day = F.date_add(F.lit("2026-11-01"), F.pmod("offset", F.lit(_DAYS)).cast("int"))
        return (("*", F.lit(None).cast("string").alias("problems"), day.alias("date")),)

    monkeypatch.setitem(TABLES, DEAD_LETTERS, spread)
    letters, before = topic(), spark.conf.get(_SETTING)
    kafka.produce(letters, _letters(4 * _DAYS))
    lake = tmp_path / "lake"
    ingest(spark, {"bootstrap.servers": kafka.bootstrap}, str(lake), dead_letters=[letters])
    found = spark.read.parquet(*map(str, (lake / DEAD_LETTERS).glob("batch=*")))
    rows = [(row.date.day, row.offset) for row in found.select("date", "offset").collect()]
    assert sorted((1 + n % _DAYS, n) for n in range(4 * _DAYS)) == sorted(rows)
    files = Counter(file.parent.name for file in lake.rglob("*.parquet"))
    assert {f"date=2026-11-{1 + n:02d}": 1 for n in range(_DAYS)} == files
    assert before == spark.conf.get(_SETTING)
