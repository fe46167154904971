"""Topics as the brokers describe them and as Spark reads them, and librdkafka's keys for it."""

import json
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pyspark.errors import AnalysisException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812  (its usual name)

from linear_retry.dlq.reading.reading import Cluster
from linear_retry.errors import ConfigurationError, UnknownTopicError
from linear_retry.kafka.topics.reader import TopicReader
from linear_retry.records.record import Record
from linear_retry.spark.lake.lake import DEAD_LETTERS, JOURNAL, Lake, LakeError
from linear_retry.spark.session import CONNECTOR, SparkMissingError

_SAME = frozenset(
    {
        *("bootstrap.servers", "security.protocol", "client.id", "client.rack"),
        *("sasl.mechanism", "sasl.kerberos.service.name"),
        *("ssl.endpoint.identification.algorithm", "ssl.key.password"),
    }
)
_RENAMED = {"metadata.broker.list": "bootstrap.servers", "sasl.mechanisms": "sasl.mechanism"}
_PEM = {
    "ssl.ca": ("ssl.truststore.certificates", "ssl.truststore.type"),
    "ssl.certificate": ("ssl.keystore.certificate.chain", "ssl.keystore.type"),
    "ssl.key": ("ssl.keystore.key", "ssl.keystore.type"),
}
_LOGINS = {
    "PLAIN": "org.apache.kafka.common.security.plain.PlainLoginModule",
    "SCRAM-SHA-256": "org.apache.kafka.common.security.scram.ScramLoginModule",
    "SCRAM-SHA-512": "org.apache.kafka.common.security.scram.ScramLoginModule",
}
_LOGIN = ("sasl.username", "sasl.password")

# A JVM that begins keeps a small machine so busy that a broker on it may take long.
ANSWER_TIMEOUT_S = 30.0
_EARLIEST = -2
"""What Spark calls the beginning of a partition."""
_OPTIONS = {
    "includeHeaders": "true",
    # Records of aborted transactions do not exist.
    "kafka.isolation.level": "read_committed",
    # Only existing records are requested. But after the last one Kafka's client fetches once more,
    # and Spark, which then asks for the partition's end, gets the answer only after that fetch.
    "kafka.fetch.max.wait.ms": "10",
}
LAST_MS = 9_000_000_000_000_000
"""Nearer to 1970 than this, Spark can hold a time: its own ends are a bit further away."""
_TIMESTAMP = f"timestamp_millis(greatest(-{LAST_MS}, least({LAST_MS}, timestamp_ms)))"
_SCHEMA = (
    "topic string, partition int, `offset` bigint, timestamp_ms bigint, key binary, value binary, "
    "headers array<struct<key: string, value: binary>>"
)
TOO_FAR = "a record's timestamp is one that Spark cannot hold"


def java_keys(config: Mapping[str, Any]) -> dict[str, str]:
    """The options for Spark's Kafka source that mean what `config` means to librdkafka.

    A key that begins with `kafka.` is the Java client's, and goes to Spark as it is. Raises
    `ConfigurationError` for an unknown key: left out, it might weaken what it secures.
    """
    found: dict[str, str] = {}
    for key, value in config.items():
        name, _, form = key.rpartition(".")
        if key.startswith("kafka."):
            found[key] = str(value)
        elif key in _SAME or key in _RENAMED:
            found[f"kafka.{_RENAMED.get(key, key)}"] = _text(key, value)
        elif name in _PEM and form in ("location", "pem"):
            content, kind = _PEM[name]
            found[f"kafka.{content}"] = _read(key, value) if form == "location" else str(value)
            found[f"kafka.{kind}"] = "PEM"
        elif key not in _LOGIN:
            raise ConfigurationError(
                f"{key!r} is not known for Spark's Kafka client; leave it out, or write what the "
                "Java client calls it behind `kafka.`, such as kafka.ssl.truststore.location"
            )
    return found | _login(config, found)


def librdkafka_keys(config: Mapping[str, Any]) -> dict[str, Any]:
    """The keys of `config` without those of the Java client."""
    return {key: value for key, value in config.items() if not key.startswith("kafka.")}


def _text(key: str, value: object) -> str:
    if key == "ssl.endpoint.identification.algorithm" and value == "none":
        return ""
    return str(value)


def _read(key: str, path: object) -> str:
    try:
        return Path(str(path)).read_text("utf-8")
    except (OSError, ValueError) as error:
        raise ConfigurationError(
            f"{key}: {path} cannot be read as PEM ({error}); correct the path"
        ) from error


def _login(config: Mapping[str, Any], found: Mapping[str, str]) -> dict[str, str]:
    if "kafka.sasl.jaas.config" in found or not any(key in config for key in _LOGIN):
        return {}
    mechanism = found.get("kafka.sasl.mechanism", "GSSAPI")
    if mechanism not in _LOGINS:
        raise ConfigurationError(
            f"sasl.username is for sasl.mechanism {', '.join(_LOGINS)}, not {mechanism}; for this "
            "one write kafka.sasl.jaas.config"
        )
    name, password = (_quoted(str(config.get(key, ""))) for key in _LOGIN)
    return {
        "kafka.sasl.jaas.config": f"{_LOGINS[mechanism]} required "
        f"username={name} password={password};"
    }


def _quoted(text: str) -> str:
    return '"' + text.replace("\\", "\\\\").replace('"', '\\"') + '"'


@dataclass(frozen=True, slots=True)
class Source:
    """A topic that goes into a table; `bounds` are each partition's beginning and end offsets."""

    table: str
    topic: str
    topic_id: str
    bounds: Mapping[int, tuple[int, int]]


def find_sources(
    config: Mapping[str, Any], dead_letters: Iterable[str], journal: str | None = None
) -> tuple[Source, ...]:
    """Asks the brokers for the topics; needs no Spark.

    Raises `ConfigurationError`, `BrokerError` and `UnknownTopicError`, before anything is written.
    """
    tables = [(DEAD_LETTERS, topic) for topic in dead_letters]
    tables += [] if journal is None else [(JOURNAL, journal)]
    topics = [topic for _, topic in tables]
    if not topics:
        raise ConfigurationError("no topic is named; name dead_letters, journal or both")
    cluster = Cluster(librdkafka_keys(config), ANSWER_TIMEOUT_S)
    # First, as its errors are the clearest: a missing topic, or an address without an answer.
    bounds = {topic: cluster.reader.bounds(topic) for topic in topics}
    facts = cluster.topics.describe(topics)
    return tuple(
        Source(table, topic, _id(facts[topic], topic), bounds[topic]) for table, topic in tables
    )


def _id(facts: Any, topic: str) -> str:
    if facts is None:
        raise UnknownTopicError(f"topic {topic!r} does not exist any more; check its name")
    return str(facts.id)


def stream_of(
    spark: SparkSession, source: Source, starting: Mapping[int, int], options: Mapping[str, str]
) -> DataFrame:
    """The topic's records as a stream, from these offsets on; other partitions from their first.

    Raises `SparkMissingError` if the session has no Kafka connector.
    """
    offsets = {each: starting.get(each, _EARLIEST) for each in source.bounds}
    begin = json.dumps({source.topic: offsets}) if starting else "earliest"
    reader = spark.readStream.format("kafka").options(**{**_OPTIONS, **options})
    try:
        return reader.options(startingOffsets=begin, subscribe=source.topic).load()
    except AnalysisException as error:
        raise SparkMissingError(
            f"the session has no Kafka connector; begin it with spark.jars.packages={CONNECTOR}"
        ) from error


def starting_offsets(lake: Lake, source: Source) -> dict[int, int]:
    """Returns where to begin: after the rows that the table has; empty, for at the first record.

    Spark ignores it once it has begun. Raises `LakeError` if these rows are from another topic of
    that name.
    """
    known = lake.topic_id(source.table, source.topic)
    if known not in (None, source.topic_id):
        raise LakeError(
            f"{lake.path}: {source.table} has rows of another topic {source.topic!r} (id {known}, "
            f"and this one's is {source.topic_id}): it was recreated, or is in another cluster; "
            "use another lake"
        )
    if known is None:
        return {}
    if lake.has_begun(source.table, source.topic, source.topic_id):
        return {}  # ignored; to find the last offsets, Spark would read the whole table
    return lake.next_offsets(source.table, source.topic)


def is_too_far(error: str) -> bool:
    """Whether it is what a query says that has failed because of a record's timestamp."""
    return "java.lang.ArithmeticException: long overflow" in error


@dataclass(frozen=True, slots=True)
class PlannedBatch:
    """A micro-batch that a query has begun, with its first and its end offsets by partition."""

    number: int
    starts: Mapping[int, int]
    ends: Mapping[int, int]

    def records(self, config: Mapping[str, Any], topic: str) -> Iterator[list[Record]]:
        """Yields its records in lists, each partition in order. Raises `BrokerError`."""
        reader = TopicReader(librdkafka_keys(config), ANSWER_TIMEOUT_S)
        # Partitions that are new have no start yet.
        starts = {number: self.starts.get(number, 0) for number in self.ends}
        yield from reader.read(topic, starts=starts, ends=self.ends)

    def frame(self, spark: SparkSession, config: Mapping[str, Any], topic: str) -> DataFrame:
        """Its records as Spark's source would give them, `with_ms`; their time is the nearest."""
        rows = [
            (
                *(each.topic, each.partition, each.offset, each.timestamp_ms),
                *(each.key, each.value, list(each.headers) or None),
            )
            for some in self.records(config, topic)
            for each in some
        ]
        return spark.createDataFrame(rows, _SCHEMA).withColumn("timestamp", F.expr(_TIMESTAMP))

    def pieces(self, offsets: int) -> Iterator["PlannedBatch"]:
        """Yields parts of it with so many offsets of one partition: the same at each call."""
        for number, end in sorted(self.ends.items()):
            for start in range(self.starts.get(number, 0), end, offsets):
                ends = {number: min(start + offsets, end)}
                yield PlannedBatch(self.number, {number: start}, ends)


def planned(spark: SparkSession, checkpoint: str, topic: str) -> PlannedBatch:
    """Returns the last micro-batch that a query with this checkpoint has begun."""
    logged = _offsets(spark, f"{checkpoint}/offsets", topic)
    number = max(logged)
    before = logged if number else _offsets(spark, f"{checkpoint}/sources/0", topic)
    return PlannedBatch(number, before[max(number - 1, 0)], logged[number])


def _offsets(spark: SparkSession, directory: str, topic: str) -> dict[int, dict[int, int]]:
    """The offsets in each of Spark's files there, by its number."""
    # Asked of Spark and not of a file system, so that Spark Connect can answer too.
    files = spark.read.text(directory, wholetext=True).select("_metadata.file_name", "value")
    return {
        int(name): {
            int(number): offset
            for number, offset in json.loads(content.splitlines()[-1])[topic].items()
        }
        for name, content in files.collect()
    }
