"""The Spark session of the command line, the error if there can be none, and Spark's causes."""

import contextlib
import os
import re
import signal
import sys
import tempfile
import threading
from collections.abc import Callable, Iterator, Mapping
from importlib.metadata import version
from importlib.resources import as_file, files
from types import FrameType
from typing import IO, Any, TypeAlias

import pyspark
from py4j.protocol import Py4JJavaError  # type: ignore[import-untyped]  # it has no types
from pyspark import SparkConf, SparkContext
from pyspark.errors import PySparkException
from pyspark.java_gateway import launch_gateway
from pyspark.logger import PySparkLogger
from pyspark.sql import SparkSession

from linear_retry.consumer.ownership.stop import SignalEvent
from linear_retry.errors import LinearRetryError

OLDEST_JAVA = 17
CONNECTOR = f"org.apache.spark:spark-sql-kafka-0-10_2.13:{pyspark.__version__}"
DELTA = f"io.delta:delta-spark_2.13:{version('delta-spark')}"
_LOCAL = "local[*]"
_POLL_S = 0.1
_SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
_Handler: TypeAlias = Callable[[int, FrameType | None], Any]
# So many columns become one huge method, which HotSpot would otherwise only interpret.
_JIT = "-XX:-DontCompileHugeMethods"
DELTA_SETTINGS = {
    "spark.sql.extensions": "io.delta.sql.DeltaSparkSessionExtension",
    "spark.sql.catalog.spark_catalog": "org.apache.spark.sql.delta.catalog.DeltaCatalog",
}
"""What a session needs for Delta Lake, besides its jars."""
_SETTINGS = DELTA_SETTINGS | {
    "spark.app.name": "linear-retry",
    "spark.sql.session.timeZone": "UTC",
    "spark.ui.enabled": "false",
    # Else PySpark asks the JVM for a setting, and walks the stack, for each new column.
    "spark.python.sql.dataFrameDebugging.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
    # By default a small lake is listed in 10,000 tasks, and the log of its tables read in 50.
    "spark.sql.sources.parallelPartitionDiscovery.parallelism": "32",
    "spark.databricks.delta.snapshotPartitions": "4",
    "spark.executor.defaultJavaOptions": _JIT,
}

JavaError = Py4JJavaError
"""An exception of the JVM for which PySpark has no class of its own."""
_CAUSE = re.compile(r"^(?:Caused by: |: )?([\w.$]*(?:Error|Exception)\b.*)$", re.MULTILINE)
_CONCURRENT = (
    *("CONCURRENT_STREAM_LOG_UPDATE", "is already active", "are concurrently using"),
    *("DELTA_CONCURRENT_", "DELTA_METADATA_CHANGED", "DELTA_PROTOCOL_CHANGED"),
)
_LONGEST = 500


class SparkMissingError(LinearRetryError):
    """Spark cannot start or work here: no Java, no connector, no Delta Lake, or no such master."""


@contextlib.contextmanager
def session(
    master: str | None = None,
    more: Mapping[str, str] | None = None,
    stop: threading.Event | None = None,
) -> Iterator[SparkSession]:
    """The active session of this process, or else one of its own that is stopped at the end.

    `master` is Spark's, `local[*]` by default; `more` are settings on top of ours. Inside, Ctrl-C,
    SIGTERM and SIGHUP end Spark's jobs and streams; `stop` is set first, for what waits for
    anything else. Raises `SparkMissingError`; Spark's own log goes nowhere but into that error.
    """
    # It would log errors to stderr itself, as JSON with the plan and all stack traces.
    PySparkLogger.getLogger("SQLQueryContextLogger").disabled = True
    active = SparkSession.getActiveSession()
    if active is not None:
        with _restored_signals() as handlers, _ended_by_signals(active, handlers, stop):
            yield active
        return
    is_submitted = "PYSPARK_GATEWAY_PORT" in os.environ
    settings = _SETTINGS | ({} if is_submitted else {"spark.master": master or _LOCAL})
    if more is None or "spark.jars" not in more:
        settings["spark.jars.packages"] = f"{CONNECTOR},{DELTA}"
    settings |= more or {}
    # If unset, workers silently use `python3` from the path, which may be another Python.
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    if settings.get("spark.master", "").startswith("local"):
        # A host name that cannot be resolved would make the start fail.
        os.environ.setdefault("SPARK_LOCAL_IP", "127.0.0.1")
    logging = files("linear_retry.spark") / "log4j2.properties"
    with tempfile.TemporaryFile() as log, as_file(logging) as file, _restored_signals() as handlers:
        options = f"-Dlog4j2.configurationFile={file.as_uri()} {_JIT}"
        settings.setdefault("spark.driver.defaultJavaOptions", options)
        conf = SparkConf(loadDefaults=False).setAll(list(settings.items()))
        spark = SparkSession(_start(conf, log))
        try:
            with _ended_by_signals(spark, handlers, stop):
                yield spark
        finally:
            spark.sparkContext.stop()


@contextlib.contextmanager
def with_settings(spark: SparkSession, settings: Mapping[str, str]) -> Iterator[None]:
    """Changes a session's settings, and restores them at the end."""
    before = {name: spark.conf.get(name, None) for name in settings}
    try:
        for name, value in settings.items():
            spark.conf.set(name, value)
        yield
    finally:
        for name, old in before.items():
            if old is None:
                spark.conf.unset(name)
            else:
                spark.conf.set(name, old)


@contextlib.contextmanager
def _restored_signals() -> Iterator[Mapping[int, _Handler]]:
    """The handlers of the signals that end a program, by number; restored at the end.

    PySpark's handler of SIGINT must not outlive Spark: it would use a context that is gone.
    """
    if threading.current_thread() is not threading.main_thread():
        yield {}
        return
    found = {number: signal.getsignal(number) for number in _SIGNALS}
    handlers = {int(number): handler for number, handler in found.items() if callable(handler)}
    try:
        yield handlers
    finally:
        for number, handler in handlers.items():
            signal.signal(number, handler)


@contextlib.contextmanager
def _ended_by_signals(
    spark: SparkSession, handlers: Mapping[int, _Handler], stop: threading.Event | None
) -> Iterator[None]:
    """Makes signals end Spark's jobs and streams, then the program; a second Ctrl-C is immediate.

    In a thread with its own connection to the JVM: PySpark's handler would make its call inside the
    interrupted one, and neither would ever return. An exception inside a call would break the
    connection.
    """
    signalled, ended = SignalEvent(), threading.Event()
    received: list[int] = []

    def end_jobs() -> None:
        signalled.wait()
        if received and stop is not None:
            # Not by the handler: where that interrupts `stop.wait()`, it would wait for itself.
            stop.set()
        while not ended.wait(_POLL_S):  # including those that start meanwhile
            _end_jobs(spark)

    def note(number: int, _: FrameType | None) -> None:
        received.append(number)
        signalled.set()
        signal.signal(signal.SIGINT, signal.default_int_handler)

    ender = threading.Thread(target=end_jobs, name="linear_retry Ctrl-C", daemon=True)
    ender.start()
    for number in handlers:
        signal.signal(number, note)
    try:
        yield
    except (Exception, KeyboardInterrupt):
        if not received:
            raise
    finally:
        ended.set()
        signalled.set()
        ender.join()
    if received:
        if received[0] != signal.SIGINT:  # the exit code depends on the signal
            handlers[received[0]](received[0], None)
        raise KeyboardInterrupt


def _end_jobs(spark: SparkSession) -> None:
    spark.sparkContext.cancelAllJobs()
    # Of all sessions: the scheduler's query is in one of its own.
    shared: Any = spark._jsparkSession.sharedState()
    for query in list(shared.activeStreamingQueries().values()):
        query.stop()


def _start(conf: SparkConf, log: IO[bytes]) -> SparkContext:
    try:
        # Not with the builder: Ivy and the JVM would write to our stderr.
        gateway = launch_gateway(conf, {"stdout": log, "stderr": log})  # type: ignore[no-untyped-call]  # PySpark has no types for it
        return SparkContext(conf=conf, gateway=gateway)
    except (PySparkException, RuntimeError, OSError) as error:
        log.seek(0)
        raise SparkMissingError(_reason(log.read().decode(errors="replace"), error)) from error


def _reason(log: str, error: BaseException) -> str:
    if re.search(r"unresolved dependency: [^\s:]+#[^\s:]+;[^\s:]+", log):
        return (
            f"Spark's Kafka connector {CONNECTOR} and {DELTA} cannot be fetched; check that Maven "
            "Central is reachable, or use spark-submit with its --jars"
        )
    causes = re.findall(
        r"^(?:Exception in .*? |Caused by: )([\w.]+(?:Exception|Error):.*)", log, re.M
    )
    if causes or not log.strip():
        return f"Spark does not start: {(causes or [str(error)])[-1].strip()[:300]}"
    return (
        f"Spark does not start; it needs Java {OLDEST_JAVA} or later, on the path or in JAVA_HOME: "
        f"{' '.join(log.split())[:300]}"
    )


def last_cause(text: str) -> str:
    """The last of the causes that Spark lists, in one line; else its first line."""
    causes = _CAUSE.findall(text) or text.strip().splitlines()[:1] or [""]
    return str(causes[-1])[:_LONGEST]


def is_concurrent(text: str) -> bool:
    """Whether it is what Spark or Delta Lake says to the slower of two that write the same."""
    return any(each in text for each in _CONCURRENT)
