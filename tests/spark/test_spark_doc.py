"""Is what docs/spark.md says true?"""

from __future__ import annotations

import shlex
from pathlib import Path

import duckdb
import pytest
from pyspark.sql import SparkSession
from typer.testing import CliRunner

from linear_retry.cli import app
from linear_retry.spark.entries import entries
from linear_retry.spark.letters import dead_letters
from tests.dlq.letters import our_record
from tests.markdown import blocks, code, page, table
from tests.real_kafka import RealKafka
from tests.spark.records import frame

_PAGE = page("docs/spark.md")


@pytest.mark.broker
def test_the_code_works(
    spark: SparkSession,
    kafka: RealKafka,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    """The page's command, Python and SQL find the letter."""
    kafka.create_topic("spark.dlq")
    kafka.create_topic("spark.journal")
    record = our_record()
    kafka.produce("spark.dlq", [(0, record.key, record.value, record.headers)])

    def adapted(text: str) -> str:
        for name, here in (
            ("localhost:9092", kafka.bootstrap),
            ("orders.dlq", "spark.dlq"),
            ("linear-retry.journal", "spark.journal"),
            # The JVM stays where it was begun, whatever directory the test is in.
            ("--lake lake", f"--lake {tmp_path}"),
            ('"lake"', f'"{tmp_path}"'),
            ("'lake/", f"'{tmp_path}/"),
        ):
            text = text.replace(name, here)
        return text

    _, command = blocks(_PAGE, "sh")
    _, *arguments = shlex.split(adapted(command))
    result = CliRunner().invoke(app, arguments)
    assert (0, "") == (result.exit_code, result.stderr)
    assert "dead_letters: 1 row of spark.dlq\njournal: 0 rows of spark.journal\n" == result.stdout
    (python,) = blocks(_PAGE, "python")
    exec(compile(adapted(python), "spark.md", "exec"), {})
    printed = capsys.readouterr().out
    assert printed.startswith("dead_letters 0 0\njournal 0 0\n")
    assert "exhausted" in printed
    (sql,) = blocks(_PAGE, "sql")
    with duckdb.connect() as duck:
        assert [("billing", "exhausted", 1)] == duck.execute(adapted(sql)).fetchall()


def test_the_tables_have_every_column(spark: SparkSession) -> None:
    """A column that is there is on the page, or is a field of an event."""
    letters, journal = _columns_told()
    common = {"topic", "partition", "offset", "timestamp", "date", "problems", "garbled"}
    empty = frame(spark, [])
    assert set(dead_letters(empty).columns) == letters | common
    of_events = set(entries(empty).columns) - common - journal
    told = {
        name for row in table(page("docs/journal.md"), "written field") for name in code(row[0])
    }
    assert of_events <= told
    assert journal <= set(entries(empty).columns)


def _columns_told() -> tuple[set[str], set[str]]:
    """What the page's two tables of columns name."""
    before, after = _PAGE.split("`journal` has what")
    return _columns(before), _columns(after)


def _columns(text: str) -> set[str]:
    return {name for row in table(text, "column") for name in code(row[0])}
