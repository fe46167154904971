"""The fleet of `examples/fleet`, on a broker: the pipeline finds what the model says is true."""

import json
import tempfile
from pathlib import Path

import pytest
from confluent_kafka.admin import AdminClient
from pyspark.sql import SparkSession

from examples.fleet.__main__ import show_fleet
from examples.fleet.model import FLEET
from examples.fleet.pipeline import FleetPlan
from tests.patience import PATIENCE_S
from tests.real_kafka import RealKafka

_SMALL = FleetPlan(
    services=tuple(each for each in FLEET if each.group in ("billing", "stock", "ledger")),
    real_day_ms=700,
)


@pytest.mark.broker
@pytest.mark.long
def test_what_is_found_is_what_was(
    spark: SparkSession,
    kafka: RealKafka,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capfdbinary: pytest.CaptureFixture[bytes],
) -> None:
    """Episodes, bounds, letters and tuned delays agree with the truth; no topic stays behind."""
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    holds = show_fleet(kafka.bootstrap, as_json=True, plan=_SMALL)
    captured = capfdbinary.readouterr()
    proof = json.loads(captured.out.splitlines()[-1])
    assert [] == [verdict for verdict in proof["proof"] if not verdict["holds"]]
    assert (True, True) == (holds, proof["holds"])
    assert b"$ linear-retry spark tune --lake" in captured.err
    (directory,) = tmp_path.iterdir()
    assert {"lake", "billing.json", "report.html"} <= {path.name for path in directory.iterdir()}
    topics = AdminClient(kafka.client_settings()).list_topics(timeout=PATIENCE_S).topics
    assert [] == [name for name in topics if name.startswith("linear-retry-demo")]
