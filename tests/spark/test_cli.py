"""`linear-retry spark ingest` reports its result in one line."""

import json
import os
import signal
import subprocess
import sys
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from pyspark.sql import SparkSession
from typer.testing import CliRunner

from linear_retry.cli import app
from linear_retry.spark import DEAD_LETTERS, Lake
from linear_retry.spark.ingestion import sources
from linear_retry.spark.session import CONNECTOR, DELTA
from tests.conftest import TopicFactory
from tests.dlq.sample_letters import our_record
from tests.kafka_operations import wait_until
from tests.patience import PATIENCE_S
from tests.real_kafka import RealKafka


def _ran(*arguments: str) -> tuple[int, str, str]:
    result = CliRunner().invoke(app, ["spark", "ingest", *arguments])
    return result.exit_code, result.stdout, result.stderr


@pytest.mark.broker
@pytest.mark.usefixtures("interpreted")
def test_what_came_is_printed(
    spark: SparkSession, kafka: RealKafka, topic: TopicFactory, tmp_path: Path
) -> None:
    """A line for each topic, or one JSON object."""
    letters = topic()
    record = our_record()
    kafka.produce(letters, [(0, record.key, record.value, record.headers), (0, None, None, ())])
    where = ("--bootstrap", kafka.bootstrap, "--dead-letters", letters)
    lake = ("--lake", str(tmp_path))
    message = f"dead_letters: 2 rows of {letters}; 1 with problems (column `problems`)\n"
    assert (0, message, "") == _ran(*where, *lake)
    code, out, _ = _ran(*where, *lake, "--json")
    assert 0 == code
    none = {"rows": 0, "unreadable": 0, "gone": 0}
    assert {"table": "dead_letters", "topic": letters, **none} == json.loads(out)


@pytest.mark.broker
@pytest.mark.usefixtures("interpreted")
@pytest.mark.parametrize(
    ("number", "code", "word"),
    [(signal.SIGINT, 130, "interrupted\n"), (signal.SIGTERM, 143, "terminated\n")],
)
def test_a_signal_ends_it(
    spark: SparkSession,
    kafka: RealKafka,
    topic: TopicFactory,
    tmp_path: Path,
    number: signal.Signals,
    code: int,
    word: str,
) -> None:
    """`--continuous` ends on Ctrl-C and SIGTERM, between two calls to the JVM, with one word, and
    leaves everything whole."""
    letters = topic()
    kafka.produce(letters, [(0, None, None, ())])

    def press() -> None:
        wait_until(lambda: list(tmp_path.glob("dead_letters/_delta_log/*1.json")), "a row")
        os.kill(os.getpid(), number)

    where = ("--bootstrap", kafka.bootstrap, "--dead-letters", letters, "--lake", str(tmp_path))
    with ThreadPoolExecutor() as pool:
        pressed = pool.submit(press)
        assert (code, "", word) == _ran(*where, "--continuous", "--every", "1s")
        assert pressed.result() is None
    assert (0, f"dead_letters: 0 rows of {letters}\n", "") == _ran(*where)
    assert 1 == Lake(spark, str(tmp_path)).table(DEAD_LETTERS).count()


@pytest.mark.broker
def test_a_missing_topic(kafka: RealKafka, tmp_path: Path) -> None:
    """Reported at once, before Spark is begun and before anything is written."""
    lake = tmp_path / "lake"
    code, out, message = _ran(
        *("--bootstrap", kafka.bootstrap, "--journal", "missing", "--lake", str(lake))
    )
    assert (3, "") == (code, out)
    assert f"{kafka.bootstrap}: topic 'missing' does not exist; check its name\n" == message
    assert not lake.exists()


def test_no_broker(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Said within half a minute, and not after minutes of Spark's log."""
    monkeypatch.setattr(sources, "ANSWER_TIMEOUT_S", 1)
    code, _, message = _ran(
        *("--bootstrap", "127.0.0.1:1", "--journal", "j", "--lake", str(tmp_path / "lake"))
    )
    assert 3 == code
    assert message.startswith("127.0.0.1:1: no answer about topic 'j' within 1 s")
    assert 1 == message.count("\n")


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("--bootstrap", "a:1"), "no topic is named"),
        (("--journal", "j"), "no broker is named"),
        (
            ("--bootstrap", "a:1", "--journal", "j", "--continuous", "--every", "0"),
            "is not a duration",
        ),
    ],
)
def test_wrong_usage(arguments: tuple[str, ...], message: str, tmp_path: Path) -> None:
    """What is wrong, and what to write."""
    code, _, output = _ran(*arguments, "--lake", str(tmp_path))
    assert 2 == code
    assert message in " ".join(output.replace("│", " ").split())


@pytest.mark.parametrize(
    ("missing", "command"),
    [
        ("pyspark", ("ingest", "--bootstrap", "a:1", "--journal", "j")),
        ("altair", ("report", "--to", "report.html")),
        ("vl_convert", ("report", "--to", "report.html")),
    ],
)
def test_without_the_extra(missing: str, command: Sequence[str], tmp_path: Path) -> None:
    """Whoever has not installed all of it is told its name, before anything else is done."""
    program = (
        f"import sys; sys.modules[{missing!r}] = None; from linear_retry.cli import main; main()"
    )
    done = subprocess.run(
        [sys.executable, "-c", program, "spark", *command, "--lake", str(tmp_path)],
        capture_output=True,
        text=True,
        check=False,
        timeout=PATIENCE_S,
    )
    assert (3, "", 1) == (done.returncode, done.stdout, done.stderr.count("\n"))
    assert missing in done.stderr
    assert done.stderr.endswith(": pip install 'linear-retry[spark]'\n")


_BEGIN = """import sys
from linear_retry.spark.session import session, SparkMissingError
try:
    session("local[1]", dict(zip(*[iter(sys.argv[1:])] * 2))).__enter__()
except SparkMissingError as error:
    print(error)
"""


def _begun(*settings: object, **environment: str) -> str:
    done = subprocess.run(
        [sys.executable, "-c", _BEGIN, *map(str, settings)],
        capture_output=True,
        text=True,
        check=False,
        timeout=PATIENCE_S,
        env=os.environ | environment,
    )
    assert (1, "") == (done.stdout.count("\n"), done.stderr)
    return done.stdout


@pytest.mark.parametrize(
    ("java", "why"),
    [
        (None, "No such file or directory"),
        ("#!/bin/sh\necho 'java.lang.UnsupportedClassVersionError: 61.0' >&2\nexit 1\n", "61.0"),
    ],
)
def test_without_java(tmp_path: Path, java: str | None, why: str) -> None:
    """None, or one that is too old: what it said, and which is needed."""
    if java is not None:
        (tmp_path / "bin").mkdir()
        (tmp_path / "bin" / "java").write_text(java)
        (tmp_path / "bin" / "java").chmod(0o755)
    output = _begun(JAVA_HOME=str(tmp_path))
    needed = "Spark does not start; it needs Java 17 or later, on the path or in JAVA_HOME: "
    assert output.startswith(needed)
    assert why in output


_NOWHERE = """<ivysettings>
<settings defaultResolver="none"/>
<resolvers><filesystem name="none"><ivy pattern="{here}/[module].xml"/></filesystem></resolvers>
</ivysettings>"""


def test_without_the_connector(tmp_path: Path) -> None:
    """Where Maven Central cannot be reached, the connector's name is told, and not Ivy's log."""
    settings = tmp_path / "ivysettings.xml"
    settings.write_text(_NOWHERE.format(here=tmp_path))
    output = _begun("spark.jars.ivySettings", settings, "spark.jars.ivy", tmp_path / "ivy")
    message = f"Spark's Kafka connector {CONNECTOR} and {DELTA} cannot be fetched; check that Maven"
    assert output.startswith(message)
