"""A session of Spark Connect reads a lake as a classic one does."""

import json
import subprocess
import sys
from pathlib import Path

import pandas as pd  # type: ignore[import-untyped]  # it has no types
import pytest

from linear_retry.journal.entry import encode
from linear_retry.spark import EPISODES, JOURNAL, Lake, report
from tests.conftest import TopicFactory
from tests.dlq.conftest import scene
from tests.dlq.scene import NewScene
from tests.docs.markdown import ROOT
from tests.patience import PATIENCE_S
from tests.spark.connected import tuned
from tests.spark.history import recorded_outages
from tests.strategy.tuning.recorded import durations_ms

__all__ = ["scene"]

pytestmark = pytest.mark.usefixtures("interpreted")

_DELAYS_MS = (10_000, 60_000, 60_000, *[600_000] * 40)
_TABLES = "report_tables/*.parquet"


@pytest.mark.broker
@pytest.mark.long
def test_a_lake_is_the_same_over_spark_connect(
    reported_lake: Lake, tmp_path: Path, scene: NewScene, topic: TopicFactory
) -> None:
    """What is ingested and merged, the same tables on the same page, the same proposals; and a
    table that is not there is missed as by any session. What Delta Lake does not do there says
    so."""
    given, journals, written = scene(2), [topic(), topic()], str(tmp_path / "written")
    of_groups = [
        list(recorded_outages.instance(group, [5000], _DELAYS_MS)) for group in ("billing", "mail")
    ]
    for name, entries in zip(journals, of_groups, strict=True):
        given.kafka.produce(name, [(0, each.key, encode(each), ()) for each in entries])
    given.add_letters(given.letter(number % 2, number, reason="exhausted") for number in range(4))
    lakes = reported_lake, Lake(reported_lake.spark, str(tmp_path / "tuned"))
    recorded_outages.write_journal(
        Path(lakes[1].path), recorded_outages.instance("billing", durations_ms(11, 60), _DELAYS_MS)
    )
    pages = [tmp_path / way / "report.html" for way in ("classic", "connect")]
    for page in pages:
        page.parent.mkdir()
    module = [sys.executable, "-m", "tests.spark.connected"]
    paths = (*(lake.path for lake in lakes), str(pages[1]), written)
    command = [*module, *paths, given.kafka.bootstrap, given.letters, *journals]
    with subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE) as process:
        output = repr(report(lakes[0], pages[0])), tuned(lakes[1])
        text = json.loads(process.communicate(timeout=PATIENCE_S)[0])
    assert 0 == process.returncode
    ingested, proposals, missing, page_written = text
    assert output == (page_written.replace("/connect/", "/classic/"), proposals)
    assert "a classic session" in ingested.pop("optimize")
    rows = [len(of_groups[0]), 0]
    assert {"rows": rows, "closed": [1, 2]} == ingested
    lake = Lake(reported_lake.spark, written)
    assert sum(map(len, of_groups)) == lake.table(JOURNAL).count()
    history = lake.spark.sql(f"DESCRIBE HISTORY {lake.identifier(EPISODES)}")
    assert "MERGE" in {row["operation"] for row in history.collect()}
    assert missing.startswith(f"{lakes[1].path}/nothing/episodes: nothing is there yet; run ")
    classic, connect = ({file.name: file for file in page.parent.glob(_TABLES)} for page in pages)
    assert classic
    assert set(classic) == set(connect)
    for name, file in classic.items():
        pd.testing.assert_frame_equal(pd.read_parquet(file), pd.read_parquet(connect[name]))
