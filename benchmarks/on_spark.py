"""Gives a measurement a Spark session of its own, and tells that JVM's memory."""

import os
import re
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from pyspark.sql import SparkSession

from linear_retry.spark.session import session
from tests.spark.conftest import jars

ROUNDS_AT_MOST = 3


@contextmanager
def own_spark() -> Iterator[SparkSession]:
    """All cores, and Spark's own defaults: a heap of 1 GiB among them."""
    with session("local[*]", {"spark.jars": jars()}) as spark:
        yield spark


def jvm_mib(spark: SparkSession) -> float:
    """What the JVM had at the most."""
    status = Path(f"/proc/{_jvm(spark)}/status").read_text()
    found = re.search(r"^VmHWM:\s+(\d+) kB$", status, re.MULTILINE)
    assert found is not None
    return int(found[1]) / 1024


def jvm_cpu_s(spark: SparkSession) -> float:
    """The CPU time of all its threads so far: what a busy machine does not make longer."""
    status = Path(f"/proc/{_jvm(spark)}/stat").read_text()
    user, system = status.rpartition(")")[2].split()[11:13]
    return (int(user) + int(system)) / os.sysconf("SC_CLK_TCK")


def _jvm(spark: SparkSession) -> int:
    return int(spark.sparkContext._gateway.proc.pid)  # type: ignore[union-attr]  # there is one


def shuffled_bytes(spark: SparkSession) -> int:
    """What all tasks so far have written for other tasks to read."""
    executors = spark.sparkContext._jsc.sc().statusStore().executorList(False)
    return sum(executors.apply(n).totalShuffleWrite() for n in range(executors.size()))


def parquet_bytes(directory: str) -> int:
    """The size of all Parquet files there."""
    return sum(file.stat().st_size for file in Path(directory).rglob("*.parquet"))
