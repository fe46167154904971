"""`python -m tests.spark.connected REPORTED TUNED PAGE`: what two lakes say over Spark Connect.

With a server of its own, as a process that has a classic session can have no other.
"""

import json
import os
import sys
from collections.abc import Callable
from typing import Any

from pyspark.sql import SparkSession

from linear_retry import Strategy
from linear_retry.spark import Lake, LakeError, groups, ingest, outages, replay, simulate, tune
from linear_retry.spark import report as write
from linear_retry.tuning.solver import Conditions
from tests.spark.conftest import INTERPRETED, settings

CONDITIONS = Conditions(0.95, 12, 2000)
STRATEGY = Strategy([10, 60, 600])
NOWHERE = {"bootstrap.servers": "localhost:1"}


def tuned(lake: Lake) -> list[str]:
    """What there is to know for a strategy."""
    proposed, simulated = tune(lake, 20.0, CONDITIONS), simulate(lake, STRATEGY)
    return [repr(each) for each in (groups(lake), proposed, simulated)]


def refusals(lake: Lake) -> list[str]:
    """Of all that would write, or send."""
    spark: Any = lake.spark
    asked: tuple[Callable[[], object], ...] = (
        lambda: outages(lake),
        lambda: ingest(spark, NOWHERE, lake.path, dead_letters=["orders.dlq"]),
        lambda: replay(spark, NOWHERE, lake.path, "true", by="sam"),
        lambda: groups(Lake(spark, f"{lake.path}/nothing")),
    )
    return [_refusal(each) for each in asked]


def _refusal(ask: Callable[[], object]) -> str:
    try:
        return f"it did: {ask()}"
    except LakeError as error:
        return str(error)


if __name__ == "__main__":
    reported, for_tuning, page = sys.argv[1:]
    os.environ["PYSPARK_PYTHON"] = sys.executable
    builder = SparkSession.builder.remote("local[2]")
    for name, value in (settings() | INTERPRETED | {"spark.ui.enabled": "false"}).items():
        builder = builder.config(name, value)
    session: Any = builder.getOrCreate()
    lake = Lake(session, for_tuning)
    output = tuned(lake), refusals(lake), repr(write(Lake(session, reported), page))
    session.stop()
    print(json.dumps(output))
