"""`linear-retry spark run` does what its four commands do, one after another."""

import json
from pathlib import Path

import pytest
from pyspark.sql import SparkSession
from typer.testing import CliRunner

from linear_retry.cli import app
from linear_retry.journal.entry import encode
from tests.conftest import TopicFactory
from tests.dlq.sample_letters import our_record
from tests.real_kafka import RealKafka
from tests.spark.history.recorded_outages import instance

pytestmark = [pytest.mark.broker, pytest.mark.long, pytest.mark.usefixtures("interpreted")]


def _ran(*arguments: str) -> tuple[int, str, str]:
    result = CliRunner().invoke(app, ["spark", "run", *arguments])
    return result.exit_code, result.stdout, result.stderr


def test_all_steps_in_one_session(
    spark: SparkSession, kafka: RealKafka, topic: TopicFactory, tmp_path: Path
) -> None:
    """A line for each as it is done; with `--json` one object; without `--to` no page."""
    letters, journal = topic(), topic()
    record = our_record()
    kafka.produce(letters, [(0, record.key, record.value, record.headers)])
    entries = instance("billing", [900, 40_000], (1000, 60_000))
    kafka.produce(journal, [(0, entry.key, encode(entry), ()) for entry in entries])
    lake, page = ("--lake", f"{tmp_path}/lake"), tmp_path / "report.html"
    where = ("--bootstrap", kafka.bootstrap, "--journal", journal, *lake)
    shown = (*where, "--dead-letters", letters, "--to", str(page), "--probe-cost", "5")
    code, out, err = _ran(*shown)
    assert (0, "") == (code, err)
    shown_page = f"{page}: 2 outages, 1 dead letter, 0 pieces of advice"
    assert [
        f"dead_letters: 1 row of {letters}",
        f"journal: 5 rows of {journal}",
        "episodes: 2 rows (2 closed)",
        f"{shown_page}; the tables are in {tmp_path}/report_tables",
        "billing: nothing is proposed: a proposal needs 59 outages with a known end, and there are "
        "1; that is enough for --cover 0.05",
    ] == out.splitlines()
    assert page.exists()
    code, out, err = _ran(*where, "--json")
    found = json.loads(out)
    assert (0, "", ["ingested", "episodes", "tuned"]) == (code, err, list(found))
    assert 2 == found["episodes"]["closed"]
