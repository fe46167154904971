"""Adds up the revenue of each customer, and waits while the database is down."""

import sqlite3
from contextlib import closing
from pathlib import Path

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.functions import col, from_json, sum  # noqa: A004  (Spark's own name)
from pyspark.sql.streaming.query import StreamingQuery

from linear_retry import Strategy
from linear_retry.spark import ForeachBatch, foreach_batch

HERE = Path(__file__).parent
DATABASE = HERE / "revenue.sqlite3"


def add_up(rows: DataFrame, batch_id: int) -> None:
    """Writes one micro-batch: all of it or nothing, and once though it may come twice."""
    order = from_json(col("value").cast("string"), "customer STRING, cents LONG").alias("order")
    sums = rows.select(order).groupBy("order.customer").agg(sum("order.cents")).collect()
    if any(customer is None or cents is None for customer, cents in sums):
        raise ValueError(f"micro-batch {batch_id} has an order without customer or cents")
    with closing(sqlite3.connect(DATABASE, timeout=1)) as database, database:
        database.execute("CREATE TABLE IF NOT EXISTS batches (id PRIMARY KEY)")
        database.execute("CREATE TABLE IF NOT EXISTS revenue (customer PRIMARY KEY, cents)")
        if database.execute("INSERT OR IGNORE INTO batches VALUES (?)", [batch_id]).rowcount:
            database.executemany(
                "INSERT INTO revenue VALUES (?, ?) "
                "ON CONFLICT (customer) DO UPDATE SET cents = cents + excluded.cents",
                [tuple(each) for each in sums],
            )


def start(spark: SparkSession) -> tuple[StreamingQuery, ForeachBatch]:
    """Starts the query; what it has done so far is in its checkpoint."""
    orders = (
        spark.readStream.format("kafka")
        .option("kafka.bootstrap.servers", "localhost:9092")
        .option("subscribe", "orders")
        .option("startingOffsets", "earliest")
        .option("includeHeaders", "true")  # dead letters keep them
        .option("maxOffsetsPerTrigger", 1000)  # also how many letters one bad order makes
        .load()
    )
    batches = foreach_batch(
        add_up,
        strategy=Strategy([1, 2, 5, {"every": "30s", "times": 20}]),
        transient=sqlite3.OperationalError,
        dead_letters="orders.dlq",
        config={"bootstrap.servers": "localhost:9092", "group.id": "revenue"},
        source=orders,
    )
    writer = orders.writeStream.queryName("revenue").foreachBatch(batches)
    return writer.option("checkpointLocation", str(HERE / "checkpoint")).start(), batches


if __name__ == "__main__":
    query, batches = start(SparkSession.builder.getOrCreate())
    with batches:
        query.awaitTermination()
