"""The code and the claims of docs/spark/ingest.md are true."""

import shlex
from pathlib import Path

import pytest
from pyspark.sql import SparkSession
from typer.testing import CliRunner

from docs.generators.events import hints_by_field
from linear_retry.cli import app
from linear_retry.records.text import ErrorText
from linear_retry.spark import dead_letters, journal
from tests.dlq.sample_letters import our_record
from tests.docs.markdown import blocks, code, page, table
from tests.real_kafka import RealKafka
from tests.spark.records import frame

_PAGE = page("docs/spark/ingest.md")


@pytest.mark.broker
@pytest.mark.usefixtures("interpreted")
def test_the_code_works(
    spark: SparkSession,
    kafka: RealKafka,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    """The page's commands, Python and SQL find the letter, also for a replay."""
    for name in ("spark.orders", "spark.dlq", "spark.journal"):
        kafka.create_topic(name)
    error = ErrorText("requests.HTTPError", "503 Service Unavailable", None)
    record = our_record(origin="spark.orders", partition=0, error=error)
    kafka.produce("spark.dlq", [(0, record.key, record.value, record.headers)])

    def adapted(text: str) -> str:
        for name, here in (
            ("localhost:9092", kafka.bootstrap),
            ("orders.dlq", "spark.dlq"),
            ("linear-retry.journal", "spark.journal"),
            # The JVM stays where it was begun, whatever directory the test is in.
            ("--lake lake", f"--lake {tmp_path}"),
            ('"lake"', f'"{tmp_path}"'),
            ('"lake/', f'"{tmp_path}/'),
            ("ids.txt", f"{tmp_path}/ids.txt"),
        ):
            text = text.replace(name, here)
        return text

    def ran(command: str) -> tuple[int, str, str]:
        _, *arguments = shlex.split(adapted(_block("sh", f"linear-retry {command}")))
        result = CliRunner().invoke(app, arguments)
        return result.exit_code, result.stdout, result.stderr

    message = "dead_letters: 1 row of spark.dlq\njournal: 0 rows of spark.journal\n"
    assert (0, message, "") == ran("spark ingest")
    names: dict[str, object] = {}
    exec(compile(adapted(_block("python", "from pyspark")), "spark.md", "exec"), names)
    printed = capsys.readouterr().out
    assert printed.startswith("dead_letters 0 0\njournal 0 0\n")
    assert "exhausted" in printed
    exec(compile(adapted(_block("python", "letters = Lake")), "", "exec"), names)
    code, out, _ = ran("dlq replay")
    assert (0, "1 letter would be sent; --yes does it") == (code, out.splitlines()[-1])
    own = _block("python", "from linear_retry.spark import dead_letters")
    exec(compile(adapted(own), "", "exec"), names)
    assert "exhausted" in capsys.readouterr().out
    exec(compile(adapted(_block("python", "import duckdb")), "", "exec"), {})
    assert "[('billing', 'exhausted', 1)]\n" == capsys.readouterr().out
    code, out, _ = ran("spark optimize")
    assert (0, True) == (code, out.startswith("dead_letters: 1 file before, 1 now"))


def _block(language: str, beginning: str) -> str:
    (found,) = (each for each in blocks(_PAGE, language) if each.startswith(beginning))
    return found


def test_the_tables_have_every_column(spark: SparkSession) -> None:
    """A column that is there is on the page, or is a field of an event."""
    letters, entries = _columns_told()
    common = {"topic", "partition", "offset", "timestamp", "date", "problems", "garbled"}
    empty = frame(spark, [])
    assert set(dead_letters(empty).columns) == letters | common
    of_events = set(journal(empty).columns) - common - entries
    assert of_events <= set(hints_by_field())
    assert entries <= set(journal(empty).columns)


def _columns_told() -> tuple[set[str], set[str]]:
    """What the page's two tables of columns name."""
    before, after = _PAGE.split("`journal` has the fields")
    return _columns(before), _columns(after)


def _columns(text: str) -> set[str]:
    return {name for row in table(text, "column") for name in code(row[0])}
