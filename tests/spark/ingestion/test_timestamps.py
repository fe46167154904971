"""No timestamp of a record stops an ingest."""

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

from linear_retry.dlq.letters.letter import read_letter
from linear_retry.dlq.reading.reading import Cluster
from linear_retry.events import CircuitClosed
from linear_retry.journal.entry import Entry, encode
from linear_retry.records.record import Record as RecordRead
from linear_retry.scope import Scope
from linear_retry.spark import DEAD_LETTERS, JOURNAL, Ingested, ingest
from linear_retry.spark.ingestion import ingest as module
from linear_retry.spark.ingestion.sources import PlannedBatch
from tests.conftest import TopicFactory
from tests.kafka_operations import Record
from tests.real_kafka import RealKafka
from tests.spark.ingestion.ingested import places_of, rows_of, sample_letters
from tests.spark.records import ANY_TIME, NANOSECONDS

pytestmark = [pytest.mark.broker, pytest.mark.usefixtures("interpreted")]

_OF_CONNECT: list[Record] = [(0, b"key", b"value", [("__connect.errors.topic", b"orders")])]
_TIMES = (NANOSECONDS, 2**63 - 1, 1_700_000_000_000_000, 1, -5, 0)


def _killed_at(piece: int) -> Callable[..., Iterator[list[RecordRead]]]:
    records, left = PlannedBatch.records, [piece]

    def read(batch: PlannedBatch, *given: Any) -> Iterator[list[RecordRead]]:
        left[0] -= 1
        if not left[0]:
            raise KeyboardInterrupt
        return records(batch, *given)

    return read


def test_a_timestamp_that_spark_cannot_hold(
    spark: SparkSession,
    kafka: RealKafka,
    topic: TopicFactory,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Each record is there once, with the id that `linear-retry dlq` gives it, also if an ingest is
    killed amid such a batch. One in nanoseconds, which Kafka Connect copies into its letters,
    stopped every later ingest."""
    letters, journal = topic(2, ANY_TIME), topic(1, ANY_TIME)
    config, lake = {"bootstrap.servers": kafka.bootstrap}, str(tmp_path / "lake")
    written = kafka.produce(letters, sample_letters(3, partitions=2))
    for at_ms in _TIMES:
        written += kafka.produce(letters, _OF_CONNECT, at_ms)
    written += kafka.produce(letters, sample_letters(3, partitions=2, first=3))
    entry = Entry(
        "i", 1, 1_795_253_536_810, "billing", "pod", CircuitClosed(Scope(), "recovered", 1.0)
    )
    kafka.produce(journal, [(0, entry.key, encode(entry), ()), (0, None, b"", ())], NANOSECONDS)
    monkeypatch.setattr(module, "_PIECE", 5)
    with monkeypatch.context() as patched:
        patched.setattr(PlannedBatch, "records", _killed_at(2))
        with pytest.raises(KeyboardInterrupt):
            ingest(spark, config, lake, dead_letters=[letters])
    assert 0 < len(rows_of(lake, DEAD_LETTERS)) < len(written)
    found = ingest(spark, config, lake, dead_letters=[letters], journal=journal)
    assert (
        Ingested(DEAD_LETTERS, letters, len(written), 0, 0),
        Ingested(JOURNAL, journal, 2, 1, 0),
    ) == found
    assert sorted(written) == places_of(lake)
    expected = {
        (each.partition, each.offset): (read_letter(each).id, each.timestamp_ms)
        for each in Cluster(config).reader.read_all(letters)
    }
    for row in rows_of(lake, DEAD_LETTERS):
        letter_id, at_ms = expected[row["partition"], row["offset"]]
        is_known = 0 <= at_ms < 253_402_300_800_000
        given_ms = None if row["timestamp"] is None else row["timestamp"].timestamp() * 1000
        assert (letter_id, at_ms if is_known else None) == (row["id"], given_ms)
    assert [1.0, None] == [row["open_s"] for row in rows_of(lake, JOURNAL)]
    kafka.produce(letters, sample_letters(1, first=6))
    (more,) = ingest(spark, config, lake, dead_letters=[letters])
    assert (1, len(written) + 1) == (more.rows, len(places_of(lake)))
