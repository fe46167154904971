"""How does the command line come by a Spark session, and what does it say where it cannot?"""

from __future__ import annotations

import contextlib
import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from types import FrameType
from typing import IO, Any, TypeAlias

import pyspark
from pyspark import SparkConf, SparkContext
from pyspark.errors import PySparkException
from pyspark.java_gateway import launch_gateway
from pyspark.logger import PySparkLogger
from pyspark.sql import SparkSession

from linear_retry.errors import LinearRetryError

OLDEST_JAVA = 17
CONNECTOR = f"org.apache.spark:spark-sql-kafka-0-10_2.13:{pyspark.__version__}"
_LOGGING = Path(__file__).with_name("log4j2.properties")
_LOCAL = "local[*]"
_LOOK_S = 0.1
ENDING = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
Handler: TypeAlias = Callable[[int, FrameType | None], Any]
# So many columns become one method, and without it HotSpot would interpret that for ever.
_JIT = "-XX:-DontCompileHugeMethods"
_SETTINGS = {
    "spark.app.name": "linear-retry",
    "spark.sql.session.timeZone": "UTC",
    "spark.ui.enabled": "false",
    # Else PySpark asks the JVM for a setting, and walks the stack, at each column that is made.
    "spark.python.sql.dataFrameDebugging.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
    "spark.driver.defaultJavaOptions": f"-Dlog4j2.configurationFile={_LOGGING.as_uri()} {_JIT}",
    "spark.executor.defaultJavaOptions": _JIT,
}


class SparkMissingError(LinearRetryError):
    """Spark cannot be had on this machine: no Java, no connector, or no such master."""


@contextlib.contextmanager
def session(
    master: str | None = None, more: Mapping[str, str] | None = None
) -> Iterator[SparkSession]:
    """The session that this process has; else one of its own, stopped at the end.

    `master` is what Spark calls so, `local[*]` by default; `more` are settings on top of ours.
    Raises `SparkMissingError`. Spark's own log goes nowhere but into that error.
    """
    # It would write an error to stderr by itself, as JSON with the plan and all stack traces.
    PySparkLogger.getLogger("SQLQueryContextLogger").disabled = True
    active = SparkSession.getActiveSession()
    if active is not None:
        yield active
        return
    is_submitted = "PYSPARK_GATEWAY_PORT" in os.environ
    settings = _SETTINGS | ({} if is_submitted else {"spark.master": master or _LOCAL})
    if more is None or "spark.jars" not in more:
        settings["spark.jars.packages"] = CONNECTOR
    settings |= more or {}
    if not is_submitted:
        check_java(os.environ)
    # Unset, workers take `python3` from the path: another Python, silently.
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    if settings.get("spark.master", "").startswith("local"):
        # A host's own name that cannot be resolved would end the start.
        os.environ.setdefault("SPARK_LOCAL_IP", "127.0.0.1")
    with tempfile.TemporaryFile() as log, _own_signals() as own:
        context = _started(SparkConf(loadDefaults=False).setAll(list(settings.items())), log)
        try:
            with _ending_jobs(context, own):
                yield SparkSession(context)
        finally:
            context.stop()


@contextlib.contextmanager
def _own_signals() -> Iterator[Mapping[int, Handler]]:
    """The handlers of the signals that end a program, by number; they are put back at the end.

    PySpark's handler of SIGINT ends with Spark: later it would ask a context that is gone.
    """
    if threading.current_thread() is not threading.main_thread():
        yield {}
        return
    own: dict[int, Handler] = {}
    for number in ENDING:
        handler = signal.getsignal(number)
        if callable(handler):
            own[number] = handler
    try:
        yield own
    finally:
        for each, before in own.items():
            signal.signal(each, before)


@contextlib.contextmanager
def _ending_jobs(context: SparkContext, own: Mapping[int, Handler]) -> Iterator[None]:
    """Ctrl-C and their like end what Spark does, and then their `own` handlers are called.

    A second Ctrl-C is `KeyboardInterrupt` at once.

    By a thread, which has a connection to the JVM of its own: PySpark's handler would make its call
    inside the one that is interrupted, and neither would be heard of again.
    """
    pressed, ended = threading.Event(), threading.Event()
    heard: list[int] = []

    def end_jobs() -> None:
        pressed.wait()
        while not ended.wait(_LOOK_S):  # whatever is begun still, too
            context.cancelAllJobs()

    def note(number: int, _: FrameType | None) -> None:
        heard.append(number)
        pressed.set()
        signal.signal(signal.SIGINT, signal.default_int_handler)

    ender = threading.Thread(target=end_jobs, name="linear_retry Ctrl-C", daemon=True)
    ender.start()
    for number in own:
        signal.signal(number, note)
    try:
        yield
    except (Exception, KeyboardInterrupt):
        if not heard:
            raise
    finally:
        ended.set()
        pressed.set()
        ender.join()
    if heard:
        own[heard[0]](heard[0], None)
        raise KeyboardInterrupt


def _started(conf: SparkConf, log: IO[bytes]) -> SparkContext:
    try:
        # Not by the builder: Ivy and the JVM would write to our stderr.
        gateway = launch_gateway(conf, {"stdout": log, "stderr": log})  # type: ignore[no-untyped-call]  # PySpark has no types for it
        return SparkContext(conf=conf, gateway=gateway)
    except (PySparkException, RuntimeError, OSError) as error:
        raise SparkMissingError(_why(log, error)) from error


def _why(log: IO[bytes], error: BaseException) -> str:
    log.seek(0)
    told = log.read().decode(errors="replace")
    missing = re.search(r"unresolved dependency: ([^\s:]+#[^\s:]+;[^\s:]+)", told)
    if missing is not None:
        return (
            f"Spark's Kafka connector {CONNECTOR} cannot be fetched; check that Maven Central is "
            "reachable, or use spark-submit with its --jars"
        )
    causes = re.findall(
        r"^(?:Exception in .*? |Caused by: )([\w.]+(?:Exception|Error):.*)", told, re.M
    )
    return f"Spark does not start: {(causes or [str(error)])[-1].strip()[:300]}"


def check_java(environ: Mapping[str, str]) -> None:
    """Raises `SparkMissingError` where the Java that Spark would take is missing or too old."""
    home = environ.get("JAVA_HOME")
    path = f"{home}/bin" if home else environ.get("PATH")
    command = shutil.which("java", path=path)
    wanted = f"Spark needs Java {OLDEST_JAVA} or later"
    if command is None:
        where = f"JAVA_HOME={home} has no bin/java" if home else "there is no java on the path"
        raise SparkMissingError(f"{wanted}; {where}: install a JRE, or set JAVA_HOME")
    told = subprocess.run([command, "-version"], capture_output=True, text=True, check=False)
    version = re.search(r'version "(\d+)', told.stderr)
    if version is None or int(version[1]) < OLDEST_JAVA:
        found = told.stderr.strip().partition("\n")[0] or f"exit code {told.returncode}"
        raise SparkMissingError(f"{wanted}; {command} says: {found}: set JAVA_HOME to a newer one")
