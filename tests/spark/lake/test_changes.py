"""The lake's files are few, and what they hold stays the same."""

import json
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import duckdb
import pyarrow as pa  # type: ignore[import-untyped]  # it has no types
import pytest
from deltalake import DeltaTable, write_deltalake
from pyspark.sql import SparkSession
from typer.testing import CliRunner

from linear_retry.cli import app
from linear_retry.spark import DEAD_LETTERS, JOURNAL, Lake

pytestmark = pytest.mark.usefixtures("interpreted")

_BATCHES = 5
_AT = datetime(2026, 11, 21, tzinfo=UTC)
_SCHEMA = "topic string, partition int, offset bigint, timestamp timestamp, date date"


def _batch(number: int) -> Any:
    """Two rows."""
    both = {"topic": "orders.dlq", "partition": 0, "timestamp": _AT}
    return pa.Table.from_pylist([both | {"offset": 2 * number + each} for each in range(2)])


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
    """By the batch that made the fiftieth, without a command, whoever wrote the others."""
    lake = Lake(spark, str(tmp_path))
    lake.create(JOURNAL, spark.createDataFrame([], _SCHEMA).schema)
    for number in range(49):
        dates = pa.array([_AT.date()] * 2)
        small = _batch(number).append_column("date", dates)
        write_deltalake(lake.place(JOURNAL), small, mode="append")
    rows = spark.createDataFrame([("orders.dlq", 0, 98, _AT, _AT.date())], _SCHEMA)
    rows.coalesce(1).write.format("delta").mode("append").save(lake.place(JOURNAL))
    assert 1 == len(DeltaTable(lake.place(JOURNAL)).file_uris())
    assert 99 == lake.table(JOURNAL).count()


def test_an_id_with_slashes_is_one_directory(spark: SparkSession, tmp_path: Path) -> None:
    """Of three ids in ten: who looks for checkpoints, finds them all at the same depth."""
    lake = Lake(spark, str(tmp_path))
    lake.create(DEAD_LETTERS, spark.createDataFrame([], _SCHEMA).schema)
    checkpoint = Path(lake.checkpoint(DEAD_LETTERS, "orders.dlq", "q9Q/eXIRRLOr+w=="))
    assert ("orders.dlq", "q9Q_eXIRRLOr+w==") == checkpoint.parts[-3:-1]
