"""Does `linear-retry demo --spark` find what the model of the fleet says is true?"""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
from pathlib import Path

import pytest
import typer
from confluent_kafka.admin import AdminClient
from pyspark.sql import SparkSession
from typer.testing import CliRunner

from linear_retry.cli import app
from linear_retry.cli.demo_spark import demo_spark
from linear_retry.demo.fleet import FLEET
from linear_retry.demo.fleet_run import Plan
from tests.real_kafka import RealKafka

_SMALL = Plan(
    services=tuple(each for each in FLEET if each.group in ("billing", "stock", "ledger")),
    real_day_ms=700,
)


@pytest.mark.broker
def test_what_is_found_is_what_was(
    spark: SparkSession,
    kafka: RealKafka,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capfdbinary: pytest.CaptureFixture[bytes],
) -> None:
    """Episodes, bounds, letters and tuned delays agree with the truth; no topic stays behind."""
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    with pytest.raises(typer.Exit) as ended:
        demo_spark(kafka.bootstrap, as_json=True, plan=_SMALL)
    captured = capfdbinary.readouterr()
    proof = json.loads(captured.out.splitlines()[-1])
    assert [] == [verdict for verdict in proof["proof"] if not verdict["holds"]]
    assert (0, True) == (ended.value.exit_code, proof["holds"])
    assert b"$ linear-retry spark tune --lake" in captured.err
    (directory,) = tmp_path.iterdir()
    assert {"lake", "billing.json", "report.html"} <= {path.name for path in directory.iterdir()}
    topics = AdminClient(kafka.client_settings()).list_topics(timeout=30).topics
    assert [] == [name for name in topics if name.startswith("linear-retry-demo")]


def test_it_needs_a_cluster() -> None:
    """The embedded broker speaks too little of Kafka for Spark's client."""
    done = CliRunner().invoke(app, ["demo", "--spark"])
    said = "--spark needs a real cluster: name it with --bootstrap HOST:PORT\n"
    assert (2, "", said) == (done.exit_code, done.stdout, done.stderr)


def test_without_pyspark() -> None:
    """Whoever has not installed the extra is told its name, before a topic is made."""
    program = "import sys; sys.modules['pyspark'] = None; from linear_retry.cli import main; main()"
    done = subprocess.run(
        [sys.executable, "-c", program, "demo", "--spark", "--bootstrap", "127.0.0.1:1"],
        capture_output=True,
        text=True,
        check=False,
        timeout=60,
    )
    said = "--spark needs PySpark: pip install 'linear-retry[spark]'\n"
    assert (3, "", said) == (done.returncode, done.stdout, done.stderr)
