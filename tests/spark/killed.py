"""An ingest by a process of its own that is killed on its way: `python -m tests.spark.killed`.

With everything that it has begun: the JVM too is gone at once, without a last word.
"""

import json
import os
import signal
import subprocess
import sys
import threading
from collections.abc import Mapping
from typing import Any

from pyspark.sql import SparkSession
from pyspark.sql import functions as F  # noqa: N812  (its usual name)

from linear_retry.spark import DEAD_LETTERS
from linear_retry.spark.ingestion.ingest import TABLES, ingest
from linear_retry.spark.session import session
from linear_retry.spark.tables.sql import Projections, date_of
from tests.spark.conftest import INTERPRETED, settings

POINTS = {
    "planned": "_ingest/*/*/*/*/offsets/*",
    "written": f"{DEAD_LETTERS}/*.parquet",
    "committed": f"{DEAD_LETTERS}/_delta_log/*.json",
}
"""What the file is that a batch has come to when the first one of a run is there."""
BATCH = 40
_LIMIT_S = 300


def places() -> Projections:
    """Where each record lies. All columns would take a new JVM three times as long."""
    problems = F.lit(None).cast("string").alias("problems")
    day = F.expr(date_of("timestamp")).alias("date")
    return (("topic", "partition", "offset", "timestamp", problems, day),)


def ingest_until(
    point: str, bootstrap: str, topic: str, lake: str, more: Mapping[str, str]
) -> None:
    """With the settings `more`, killed at this point, or if that is "" until all is ingested."""
    command = (sys.executable, "-m", "tests.spark.killed")
    done = subprocess.run(
        [*command, point, bootstrap, topic, lake, json.dumps(more)],
        capture_output=True,
        text=True,
        check=False,
        timeout=_LIMIT_S,
        start_new_session=True,
    )
    assert done.returncode == (-signal.SIGKILL if point else 0), done.stderr


def _die_at(spark: SparkSession, files: str) -> None:
    """Ends all of it as soon as there is one file more."""
    jvm: Any = spark._jvm
    path = jvm.org.apache.hadoop.fs.Path(files)
    store = path.getFileSystem(spark._jsc.hadoopConfiguration())
    before = len(store.globStatus(path) or ())

    def watch() -> None:
        while len(store.globStatus(path) or ()) == before:
            pass
        os.killpg(0, signal.SIGKILL)

    threading.Thread(target=watch, daemon=True).start()


if __name__ == "__main__":
    point, bootstrap, topic, lake, more = sys.argv[1:]
    TABLES[DEAD_LETTERS] = places
    with session("local[1]", settings() | INTERPRETED | json.loads(more)) as spark:
        if point:
            _die_at(spark, f"{lake}/{POINTS[point]}")
        config = {"bootstrap.servers": bootstrap}
        ingest(spark, config, lake, dead_letters=[topic], max_offsets=BATCH)
