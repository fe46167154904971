"""Reads two lakes and writes a third over Spark Connect: `python -m tests.spark.connected ...`.

With a server of its own, as a process that has a classic session can have no other.
"""

import json
import os
import sys
from typing import Any

from pyspark.sql import SparkSession

from linear_retry import Strategy
from linear_retry.spark import (
    EPISODES,
    JOURNAL,
    Lake,
    LakeError,
    groups,
    ingest,
    optimize,
    simulate,
    survival,
    tune,
    update_episodes,
)
from linear_retry.spark import report as write
from linear_retry.spark.history import table
from linear_retry.spark.session import DELTA_SETTINGS
from linear_retry.strategy.tuning.solver import Conditions
from tests.spark.conftest import INTERPRETED, settings

CONDITIONS = Conditions(0.95, 12, 2000)
STRATEGY = Strategy([10, 60, 600])


def tuned(lake: Lake) -> list[str]:
    """What there is to know for a strategy."""
    rows, journal = lake.table(EPISODES), lake.table(JOURNAL)
    proposed = tune(rows, 20.0, CONDITIONS, journal=journal)
    simulated = simulate(rows, STRATEGY, journal=journal)
    shares = survival(rows, resamples=5).orderBy("group", "after_s").collect()
    return [repr(each) for each in (groups(lake), proposed, simulated, shares)]


def written_by(lake: Lake, bootstrap: str, journals: list[str], letters: str) -> dict[str, object]:
    """What ingests say, and what is made of the tables."""
    config, spark = {"bootstrap.servers": bootstrap}, lake.spark
    twice = [ingest(spark, config, lake.path, journal=journals[0])[0].rows for _ in range(2)]
    closed = [update_episodes(lake)["closed"]]
    table.SMALL_BYTES = 0  # from here on, what has changed is merged into the table
    ingest(spark, config, lake.path, journal=journals[1], dead_letters=[letters])
    closed.append(update_episodes(lake)["closed"])
    return {"rows": twice, "closed": closed, "optimize": _optimized(lake)}


def _optimized(lake: Lake) -> str:
    try:
        return str(optimize(lake))
    except LakeError as error:
        return str(error)


def missing(lake: Lake) -> str:
    """What is said of a table that is not there."""
    try:
        return f"there are {groups(Lake(lake.spark, f'{lake.path}/nothing'))}"
    except LakeError as error:
        return str(error)


if __name__ == "__main__":
    reported, for_tuning, page, written, bootstrap, letters, *journals = sys.argv[1:]
    os.environ["PYSPARK_PYTHON"] = sys.executable
    builder = SparkSession.builder.remote("local[2]")
    for name, value in (
        settings() | DELTA_SETTINGS | INTERPRETED | {"spark.ui.enabled": "false"}
    ).items():
        builder = builder.config(name, value)
    session: Any = builder.getOrCreate()
    lake = Lake(session, for_tuning)
    ingested = written_by(Lake(session, written), bootstrap, journals, letters)
    output = ingested, tuned(lake), missing(lake), repr(write(Lake(session, reported), page))
    session.stop()
    print(json.dumps(output))
