"""The lake's files are few, and what they hold stays the same."""

import json
import shutil
from pathlib import Path

import duckdb
import pyarrow as pa  # type: ignore[import-untyped]  # it has no types
import pytest
from deltalake import DeltaTable, write_deltalake
from pyspark.sql import SparkSession
from typer.testing import CliRunner

from linear_retry.cli import app
from linear_retry.spark import DEAD_LETTERS, JOURNAL, Lake, LakeError
from tests.spark.lake.old_lake import AT, batch, write_old_batch, write_old_lake

pytestmark = pytest.mark.usefixtures("interpreted")

_BATCHES = 5
_SCHEMA = "topic string, partition int, offset bigint, timestamp timestamp, date date"


def _ran(command: str, *arguments: object) -> tuple[int, str, str]:
    result = CliRunner().invoke(app, ["spark", command, *map(str, arguments)])
    return result.exit_code, result.stdout, result.stderr


def _offsets(lake: Lake) -> list[int]:
    """Of all rows of the letters, on which three readers must agree."""
    table = DeltaTable(lake.place(DEAD_LETTERS))
    found = sorted(table.to_pyarrow_table()["offset"].to_pylist())
    assert found == sorted(row.offset for row in lake.table(DEAD_LETTERS).collect())
    with duckdb.connect() as duck:
        duck.register("letters", table.to_pyarrow_dataset())
        rows = duck.execute('SELECT "offset" FROM letters ORDER BY ALL').fetchall()
    assert [(each,) for each in found] == rows
    return found


def test_optimize_puts_files_together(spark: SparkSession, tmp_path: Path) -> None:
    """The command says how many there were and are; the rows are the same for every reader, and
    whoever had begun to read the old files still finds them."""
    lake = Lake(spark, str(tmp_path))
    for number in range(_BATCHES):
        write_deltalake(lake.place(DEAD_LETTERS), batch(number), mode="append")
    before = DeltaTable(lake.place(DEAD_LETTERS)).to_pyarrow_dataset()
    code, out, err = _ran("optimize", "--lake", tmp_path, "--json")
    assert (0, "") == (code, err)
    result = json.loads(out)
    assert result.pop("size_bytes") > 0
    assert {"table": DEAD_LETTERS, "files_before": _BATCHES, "files": 1} == result
    assert list(range(2 * _BATCHES)) == _offsets(lake)
    assert 2 * _BATCHES == before.count_rows()


def test_fifty_small_files_become_one(spark: SparkSession, tmp_path: Path) -> None:
    """By the batch that made the fiftieth, without a command, whoever wrote the others."""
    lake = Lake(spark, str(tmp_path))
    lake.create(JOURNAL, spark.createDataFrame([], _SCHEMA).schema)
    for number in range(49):
        dates = pa.array([AT.date()] * 2)
        small = batch(number).append_column("date", dates)
        write_deltalake(lake.place(JOURNAL), small, mode="append")
    rows = spark.createDataFrame([("orders.dlq", 0, 98, AT, AT.date())], _SCHEMA)
    rows.coalesce(1).write.format("delta").mode("append").save(lake.place(JOURNAL))
    assert 1 == len(DeltaTable(lake.place(JOURNAL)).file_uris())
    assert 99 == lake.table(JOURNAL).count()


def test_a_lake_of_the_old_layout_is_converted(spark: SparkSession, tmp_path: Path) -> None:
    """Whatever wants to read it is told the command; then its rows are there, with their topic."""
    write_old_lake(tmp_path)
    topic = tmp_path / "_ingest" / DEAD_LETTERS / "orders.dlq" / "topic.json"
    lake = Lake(spark, str(tmp_path))
    with pytest.raises(LakeError, match=f"run `linear-retry spark convert --lake {tmp_path}`"):
        lake.table(DEAD_LETTERS)
    topic.unlink()
    code, _, message = _ran("convert", "--lake", tmp_path)
    assert (3, True) == (code, f"{topic}: is not there" in message)
    topic.write_text("the-id")
    code, out, err = _ran("convert", "--lake", tmp_path)
    assert ("dead_letters: 4 rows\n", "", 0) == (out, err, code)
    assert [0, 1, 2, 3] == _offsets(lake)
    assert "the-id" == lake.topic_id(DEAD_LETTERS, "orders.dlq")
    message = f"{tmp_path}: no table has the layout before Delta Lake\n"
    assert (3, "", message) == _ran("convert", "--lake", tmp_path)


def test_an_id_with_slashes_is_one_directory(spark: SparkSession, tmp_path: Path) -> None:
    """Of three ids in ten: who looks for checkpoints, finds them all at the same depth."""
    lake = Lake(spark, str(tmp_path))
    lake.create(DEAD_LETTERS, spark.createDataFrame([], _SCHEMA).schema)
    checkpoint = Path(lake.checkpoint(DEAD_LETTERS, "orders.dlq", "q9Q/eXIRRLOr+w=="))
    assert ("orders.dlq", "q9Q_eXIRRLOr+w==") == checkpoint.parts[-3:-1]


def test_a_batch_that_was_being_published_is_not_converted(
    spark: SparkSession, tmp_path: Path
) -> None:
    """The bug: killed while a rename copied a batch, the old table had a part of it, and the next
    ingest began after that part. One that was not being published yet is read again anyway."""
    write_old_lake(tmp_path)
    written = tmp_path / "_unfinished" / DEAD_LETTERS
    write_old_batch(written, 2)
    torn = write_old_batch(written, 1)
    published = tmp_path / DEAD_LETTERS / torn.name
    code, out, err = _ran("convert", "--lake", tmp_path)
    assert (3, "", 1) == (code, out, err.count("\n"))
    assert err.startswith(f"{published}, {torn}: an ingest was killed while it published")
    for each in (torn, published):
        shutil.rmtree(each)
    assert (0, "dead_letters: 2 rows\n", "") == _ran("convert", "--lake", tmp_path)
    assert {0: 2} == Lake(spark, str(tmp_path)).next_offsets(DEAD_LETTERS, "orders.dlq")
