"""Where does a test get Spark from? One session, for it takes seconds to begin."""

from __future__ import annotations

import gc
import warnings
from collections.abc import Iterator
from pathlib import Path

import pyspark
import pytest
from pyspark.sql import SparkSession

from linear_retry.spark.session import session
from tests import kafka_jars

_VERSION = "4.0.0"
_CONNECTOR = kafka_jars.Jars(
    f"spark-kafka-{_VERSION}",
    Path(__file__).with_name("pom.xml"),
    f"spark-sql-kafka-0-10_2.13-{_VERSION}.jar",
)
# The others that it names are in PySpark already.
_NEEDED = ("spark-sql-kafka-", "spark-token-provider-kafka-", "kafka-clients-", "commons-pool2-")


def connector() -> str:
    """`spark.jars` for the Kafka connector; downloaded the first time, as the broker's jars are."""
    jars = kafka_jars.directory(wanted=_CONNECTOR)
    found = sorted(jar for jar in jars.glob("*.jar") if jar.name.startswith(_NEEDED))
    assert len(_NEEDED) == len(found), found
    return ",".join(map(str, found))


def settings() -> dict[str, str]:
    """Those of a session for tests: no job here is so long that C2 would pay."""
    return {
        "spark.jars": connector(),
        "spark.sql.shuffle.partitions": "2",
        "spark.driver.extraJavaOptions": "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC",
    }


@pytest.fixture(autouse=True)
def _sockets_of_py4j() -> Iterator[None]:
    """Py4J 0.10.9.9 leaves its sockets to the garbage collector, which is heard as a warning."""
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", "unclosed <socket", ResourceWarning)
        yield
        gc.collect()


@pytest.fixture(scope="session")
def spark() -> Iterator[SparkSession]:
    """The one session of the whole run."""
    assert _VERSION == pyspark.__version__, "pom.xml has the connector of another version"
    with session("local[2]", settings()) as made:
        yield made
