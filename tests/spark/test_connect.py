"""A session of Spark Connect reads a lake as a classic one does."""

import json
import subprocess
import sys
from pathlib import Path

import pandas as pd  # type: ignore[import-untyped]  # it has no types
import pytest

from linear_retry.spark import Lake, report
from tests.docs.markdown import ROOT
from tests.spark.connected import tuned
from tests.spark.episodes import recorded_outages
from tests.tuning.recorded import durations_ms

pytestmark = pytest.mark.usefixtures("interpreted")

_DELAYS_MS = (10_000, 60_000, 60_000, *[600_000] * 40)
_TABLES = "report_tables/*.parquet"


def test_a_lake_reads_the_same_over_spark_connect(reported_lake: Lake, tmp_path: Path) -> None:
    """The same tables on the same page, the same proposals; what would write says that it cannot,
    and a table that is not there is missed as by any session."""
    lakes = reported_lake, Lake(reported_lake.spark, str(tmp_path / "tuned"))
    recorded_outages.write_journal(
        Path(lakes[1].path), recorded_outages.instance("billing", durations_ms(11, 60), _DELAYS_MS)
    )
    pages = [tmp_path / way / "report.html" for way in ("classic", "connect")]
    for page in pages:
        page.parent.mkdir()
    module = [sys.executable, "-m", "tests.spark.connected"]
    command = [*module, *(lake.path for lake in lakes), str(pages[1])]
    with subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE) as process:
        output = repr(report(lakes[0], pages[0])), tuned(lakes[1])
        text = json.loads(process.communicate(timeout=300)[0])
    assert 0 == process.returncode
    assert output == (text[2].replace("/connect/", "/classic/"), text[0])
    *refusals, missing = text[1]
    assert 3 == len(refusals)
    assert {f"{lakes[1].path}: over Spark Connect a lake can be read, but neither"} == {
        refusal.partition(" written nor replayed")[0] for refusal in refusals
    }
    assert missing.startswith(f"{lakes[1].path}/nothing/outages: nothing is there yet; run ")
    classic, connect = ({file.name: file for file in page.parent.glob(_TABLES)} for page in pages)
    assert classic
    assert set(classic) == set(connect)
    for name, file in classic.items():
        pd.testing.assert_frame_equal(pd.read_parquet(file), pd.read_parquet(connect[name]))
