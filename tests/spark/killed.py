"""`python -m tests.spark.killed POINT BOOTSTRAP TOPIC LAKE`: ingest, and be killed at a point.

With everything that it has begun: the JVM too is gone at once, without a last word.
"""

import os
import signal
import sys

from pyspark.sql import DataFrame
from pyspark.sql import functions as F  # noqa: N812  (its usual name)

from linear_retry.spark import DEAD_LETTERS, Lake
from linear_retry.spark.ingestion.ingest import TABLES, ingest
from linear_retry.spark.session import session
from linear_retry.spark.tables.sql import Projections, date_of
from tests.spark.conftest import INTERPRETED, settings

POINTS = ("before it is written", "before it is published", "before it is noted as done")
BATCH = 40


def places() -> Projections:
    """Where each record lies. All columns would take a new JVM three times as long."""
    problems = F.lit(None).cast("string").alias("problems")
    day = F.expr(date_of("timestamp")).alias("date")
    return (("topic", "partition", "offset", problems, day),)


class Mortal(Lake):
    """A lake whose writer dies at the first batch that it adds."""

    point = ""

    def write(self, rows: DataFrame, place: str) -> None:
        self._reached(POINTS[0])
        super().write(rows, place)

    def publish(self, unfinished: str, target: str) -> None:
        self._reached(POINTS[1])
        super().publish(unfinished, target)
        self._reached(POINTS[2])

    def _reached(self, point: str) -> None:
        if point == Mortal.point:
            os.killpg(0, signal.SIGKILL)


if __name__ == "__main__":
    Mortal.point, bootstrap, topic, lake = sys.argv[1:]
    TABLES[DEAD_LETTERS] = places
    with session("local[1]", settings() | INTERPRETED) as spark:
        config = {"bootstrap.servers": bootstrap}
        ingest(spark, config, Mortal(spark, lake), dead_letters=[topic], max_offsets=BATCH)
