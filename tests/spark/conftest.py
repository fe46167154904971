"""One Spark session for all tests, for it takes seconds to begin."""

import gc
from collections.abc import Iterator
from pathlib import Path

import pyspark
import pytest
from pyspark.sql import SparkSession

from linear_retry.spark import Lake
from linear_retry.spark.ingestion.ingest import SETTINGS
from linear_retry.spark.session import session, with_settings
from tests import kafka_jars
from tests.spark.reporting import reported

_HERE = Path(__file__).parent
_VERSION = "4.0.0"
_JARS = kafka_jars.Jars(
    f"spark-{_VERSION}-delta-{_VERSION}",
    _HERE / "pom.xml",
    f"spark-sql-kafka-0-10_2.13-{_VERSION}.jar",
)
_S3A = kafka_jars.Jars("hadoop-aws-3.4.1", _HERE / "ingestion" / "s3a.xml", "hadoop-aws-3.4.1.jar")
# The others that it names are in PySpark already.
_NEEDED = (
    *("spark-sql-kafka-", "spark-token-provider-kafka-", "kafka-clients-", "commons-pool2-"),
    *("delta-spark_", "delta-storage-"),
)

_YOUNG = (
    *("-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC"),
    # With the 48 MB that HotSpot reserves without C2, code is thrown out, and compiled again.
    *("-XX:ReservedCodeCacheSize=256m", "-XX:MetaspaceSize=256m", "-Xmn256m"),
    *("-XX:+UnlockDiagnosticVMOptions", "-XX:-BytecodeVerificationRemote"),
)
_STRICT = {
    "spark.sql.ansi.enforceReservedKeywords": "true",
    "spark.sql.parser.escapedStringLiterals": "true",
}
INTERPRETED = {
    "spark.sql.codegen.wholeStage": "false",
    "spark.sql.codegen.factoryMode": "NO_CODEGEN",
}


def jars() -> str:
    """`spark.jars` for the Kafka connector and Delta Lake; downloaded at first, as the broker's."""
    directory = kafka_jars.directory(wanted=_JARS)
    found = sorted(jar for jar in directory.glob("*.jar") if jar.name.startswith(_NEEDED))
    assert len(_NEEDED) == len(found), found
    return ",".join(map(str, found))


def with_s3a() -> dict[str, str]:
    """`settings` of a session that can also read and write an object store."""
    found = sorted(kafka_jars.directory(wanted=_S3A).glob("*.jar"))
    more = [str(jar) for jar in found if not jar.name.startswith("slf4j-")]  # Spark has its own
    return settings() | {"spark.jars": ",".join([jars(), *more])}


def settings() -> dict[str, str]:
    """Those of a session for tests: no job here is so long that C2 would pay, and the classes of
    Spark's own jars are loaded unverified, which is a fifth of all that a young JVM does."""
    return {
        "spark.jars": jars(),
        "spark.sql.shuffle.partitions": "2",
        "spark.databricks.delta.snapshotPartitions": "1",
        "spark.sql.sources.parallelPartitionDiscovery.parallelism": "2",
        "spark.driver.extraJavaOptions": " ".join(_YOUNG),
    }


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Py4J 0.10.9.9 leaves its sockets to the garbage collector, which is heard as a warning."""
    ignored = pytest.mark.filterwarnings("ignore:unclosed <socket:ResourceWarning")
    for item in items:
        if item.path.is_relative_to(_HERE):
            item.add_marker(ignored)


@pytest.fixture(scope="module", autouse=True)
def _sockets_of_py4j() -> Iterator[None]:
    """Collected here, and not amid a test of another room, where they would be heard."""
    yield
    gc.collect()


@pytest.fixture(scope="session")
def spark() -> Iterator[SparkSession]:
    """The one session of the whole run."""
    assert _VERSION == pyspark.__version__, "pom.xml has the connector of another version"
    with session("local[2]", with_s3a()) as made:
        yield made


@pytest.fixture(scope="session")
def reported_lake(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> Lake:
    """To be read only: a few of all that a report tells of."""
    lake = Lake(spark, str(tmp_path_factory.mktemp("reported")))
    reported.make(lake)
    return lake


@pytest.fixture
def strict_parser(spark: SparkSession) -> Iterator[None]:
    """Where a session reserves all of SQL's words, and takes backslashes as they are."""
    with with_settings(spark, _STRICT):
        yield


@pytest.fixture(scope="module")
def as_ingested(spark: SparkSession) -> Iterator[None]:
    """As `ingest` does, whatever the session says."""
    with with_settings(spark, SETTINGS):
        yield


@pytest.fixture(scope="module")
def interpreted(spark: SparkSession) -> Iterator[None]:
    """For what is done with rows, and not what is in them: to compile a wide plan takes seconds."""
    with with_settings(spark, INTERPRETED):
        yield
