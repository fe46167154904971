"""The lake's files are few, and what they hold stays the same."""

import json
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import duckdb
import pyarrow as pa  # type: ignore[import-untyped]  # it has no types
import pyarrow.parquet as pq  # type: ignore[import-untyped]  # the same
import pytest
from deltalake import DeltaTable, write_deltalake
from pyspark.sql import SparkSession
from typer.testing import CliRunner

from linear_retry.cli import app
from linear_retry.spark import DEAD_LETTERS, JOURNAL, Lake, LakeError

pytestmark = pytest.mark.usefixtures("interpreted")

_AT = datetime(2026, 11, 21, tzinfo=UTC)
_BATCHES = 5
_SCHEMA = "topic string, partition int, offset bigint, timestamp timestamp, date date"


def _ran(command: str, *arguments: object) -> tuple[int, str, str]:
    result = CliRunner().invoke(app, ["spark", command, *map(str, arguments)])
    return result.exit_code, result.stdout, result.stderr


def _batch(number: int) -> Any:
    both = {"topic": "orders.dlq", "partition": 0, "timestamp": _AT}
    return pa.Table.from_pylist([both | {"offset": 2 * number + each} for each in range(2)])


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
        write_deltalake(lake.place(DEAD_LETTERS), _batch(number), mode="append")
    before = DeltaTable(lake.place(DEAD_LETTERS)).to_pyarrow_dataset()
    code, out, err = _ran("optimize", "--lake", tmp_path, "--json")
    assert (0, "") == (code, err)
    result = json.loads(out)
    assert result.pop("size_bytes") > 0
    assert {"table": DEAD_LETTERS, "files_before": _BATCHES, "files": 1} == result
    assert list(range(2 * _BATCHES)) == _offsets(lake)
    assert 2 * _BATCHES == before.count_rows()


def test_fifty_small_files_become_one(spark: SparkSession, tmp_path: Path) -> None:
    """By the write that made the fiftieth, without a command."""
    lake = Lake(spark, str(tmp_path))
    lake.create(JOURNAL, spark.createDataFrame([], _SCHEMA).schema)
    rows = spark.range(50).selectExpr(
        *("'journal' AS topic", "0 AS partition", "id AS offset"),
        *("timestamp '2026-11-21' AS timestamp", "date '2026-11-21' AS date"),
    )
    rows.repartition(50).write.format("delta").mode("append").save(lake.place(JOURNAL))
    assert 1 == len(DeltaTable(lake.place(JOURNAL)).file_uris())
    assert 50 == lake.table(JOURNAL).count()


def _write_old_lake(root: Path) -> None:
    """As releases before Delta Lake wrote it."""
    for number in range(2):
        place = root / DEAD_LETTERS / f"batch=orders.dlq@{number:08d}" / "date=2026-11-21"
        place.mkdir(parents=True)
        pq.write_table(_batch(number), place / "part-0.parquet")


def test_a_lake_of_the_old_layout_is_converted(spark: SparkSession, tmp_path: Path) -> None:
    """Whatever wants to read it is told the command; then its rows are there, with their topic."""
    _write_old_lake(tmp_path)
    topic = tmp_path / "_ingest" / DEAD_LETTERS / "orders.dlq" / "topic.json"
    lake = Lake(spark, str(tmp_path))
    with pytest.raises(LakeError, match=f"run `linear-retry spark convert --lake {tmp_path}`"):
        lake.table(DEAD_LETTERS)
    code, _, message = _ran("convert", "--lake", tmp_path)
    assert (3, True) == (code, f"{topic}: is not there" in message)
    topic.parent.mkdir(parents=True)
    topic.write_text("the-id")
    code, out, err = _ran("convert", "--lake", tmp_path)
    assert ("dead_letters: 4 rows\n", "", 0) == (out, err, code)
    assert [0, 1, 2, 3] == _offsets(lake)
    assert "the-id" == lake.topic_id(DEAD_LETTERS, "orders.dlq")
    message = f"{tmp_path}: no table has the layout before Delta Lake\n"
    assert (3, "", message) == _ran("convert", "--lake", tmp_path)
