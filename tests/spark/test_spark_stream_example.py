"""The Spark example adds up each order once, and waits for its database."""

import json
import runpy
import sqlite3
from contextlib import closing
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from tests.conftest import TopicFactory
from tests.examples.scene import make_scene
from tests.kafka_operations import wait_until
from tests.real_kafka import RealKafka

pytestmark = [pytest.mark.broker, pytest.mark.long, pytest.mark.usefixtures("interpreted")]


def test_it_waits_for_the_database(
    spark: SparkSession, kafka: RealKafka, topic: TopicFactory, tmp_path: Path
) -> None:
    """A locked database is an outage; a micro-batch with a bad order is dead letters; and one
    that comes again changes nothing."""
    orders = topic()
    kafka.create_topic(f"{orders}.dlq")
    here = make_scene(kafka, orders, tmp_path, 0, 0)
    program = runpy.run_path(str(here.copy.path("spark_stream") / "revenue.py"))
    here.produce(_order("ann", 100), _order("bob", 20), _order("ann", 3))
    with closing(sqlite3.connect(program["DATABASE"])) as database:
        database.execute("BEGIN EXCLUSIVE")
        query, batches = program["start"](spark)
        try:
            wait_until(lambda: "open" == batches.circuit.state, "the circuit opens")
            assert "database is locked" in batches.circuit.error
            database.rollback()
            query.processAllAvailable()
            here.produce(_order("ann", None))
            query.processAllAvailable()
        finally:
            query.stop()
        batches.close()
        program["add_up"](spark.createDataFrame([(_order("ann", 103),)], "value BINARY"), 0)
        revenue = sorted(database.execute("SELECT * FROM revenue").fetchall())
    assert [("ann", 103), ("bob", 20)] == revenue
    letters = [(each.value, each.reason) for each in here.dead_letters()]
    assert [(_order("ann", None), "permanent")] == letters


def _order(customer: str, cents: int | None) -> bytes:
    return json.dumps({"order": 1, "customer": customer, "cents": cents}).encode()
