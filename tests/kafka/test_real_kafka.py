"""The broker of the tests does what they rely on."""

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest
from confluent_kafka import Consumer

from tests.kafka_jars import KAFKA_VERSION, NoBrokerError, directory
from tests.kafka_operations import wait_until
from tests.patience import PATIENCE_S
from tests.real_kafka import RealKafka

CHECKOUT = Path(__file__).parents[2]


def _commit_one(kafka: RealKafka, group: str, topic: str) -> None:
    settings = {"group.id": group, "auto.offset.reset": "earliest"}
    with Consumer(kafka.client_settings(**settings)) as consumer:
        consumer.subscribe([topic])
        assert consumer.poll(PATIENCE_S) is not None
        consumer.commit(asynchronous=False)


@pytest.mark.broker
def test_a_broker_killed_or_stopped_comes_back_with_its_data(own_kafka: RealKafka) -> None:
    """Messages and committed offsets outlive SIGKILL and SIGTERM, and the address stays."""
    address = own_kafka.bootstrap
    own_kafka.create_topic("orders", 1)
    own_kafka.produce("orders", [(0, b"ann", b"book", [])])
    _commit_one(own_kafka, "readers", "orders")
    own_kafka.restart()
    own_kafka.stop()
    own_kafka.start()
    assert [b"book"] == [m.value() for m in own_kafka.read("orders")]
    assert {0: 1} == own_kafka.committed("readers", "orders")
    assert address == own_kafka.bootstrap


@pytest.mark.broker
def test_a_broker_dies_with_a_test_process_that_is_killed(tmp_path: Path) -> None:
    """SIGKILL of the process that started a broker ends the broker."""
    code = (
        "import sys, pathlib; from tests.real_kafka import RealKafka\n"
        "broker = RealKafka(pathlib.Path(sys.argv[1])); broker.__enter__()\n"
        "print(broker.pid, flush=True); sys.stdin.read()"
    )
    parent = subprocess.Popen(
        [sys.executable, "-c", code, str(tmp_path)],
        cwd=CHECKOUT,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    with parent:
        assert parent.stdout is not None
        broker = int(parent.stdout.readline())
        assert _runs(broker)
        parent.send_signal(signal.SIGKILL)
    wait_until(lambda: not _runs(broker), "the broker ends")


def _runs(pid: int) -> bool:
    # A zombie that nobody reaps (init is not everywhere) has ended all the same.
    try:
        return "State:\tZ" not in Path(f"/proc/{pid}/status").read_text()
    except (FileNotFoundError, ProcessLookupError):
        return False


@pytest.mark.broker
def test_a_broker_that_ends_by_itself_shows_its_log(tmp_path: Path) -> None:
    """A broker that does not start fails at once, with the broker's own words."""
    broker = RealKafka(tmp_path, {"num.network.threads": "-1"})
    with pytest.raises(AssertionError, match=r"num\.network\.threads"), broker:
        pass


def test_jars_that_are_there_are_not_fetched_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With the jars in the cache neither Maven nor Ivy is asked for."""
    (tmp_path / f"kafka-{KAFKA_VERSION}").mkdir()
    monkeypatch.setenv("PATH", "")
    assert tmp_path / f"kafka-{KAFKA_VERSION}" == directory(tmp_path)


def test_a_download_that_fails_leaves_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A broken download is an error that names the command, and leaves no jars behind."""
    tools, cache = tmp_path / "bin", tmp_path / "cache"
    _command(tools, "mvn", "echo no network; exit 1")
    monkeypatch.setenv("PATH", str(tools))
    with pytest.raises(NoBrokerError, match=r"mvn.*\nno network"):
        directory(cache)
    assert [] == list(cache.iterdir())


def _command(directory: Path, name: str, script: str) -> None:
    directory.mkdir(exist_ok=True)
    (directory / name).write_text(f"#!/bin/sh\n{script}\n")
    (directory / name).chmod(0o755)


def _check_java(path: Path) -> subprocess.CompletedProcess[str]:
    environment = {key: value for key, value in os.environ.items() if key != "JAVA_HOME"}
    return subprocess.run(
        [sys.executable, "-m", "tests.kafka_jars"],
        cwd=CHECKOUT,
        env={**environment, "PATH": str(path)},
        capture_output=True,
        text=True,
        check=False,
    )


def test_without_java_one_line_says_so(tmp_path: Path) -> None:
    """No Java: exit code 1, and one line that says what is needed."""
    ended = _check_java(tmp_path)
    assert 1 == ended.returncode
    assert ["error: tests on a real Kafka broker need Java 17 or later"] == [
        line.partition(";")[0] for line in ended.stderr.splitlines()
    ]


def test_a_java_that_is_too_old_is_named(tmp_path: Path) -> None:
    """Java 11: exit code 1, and one line that says which Java was found."""
    _command(tmp_path, "java", "echo 'openjdk version \"11.0.2\" 2019' >&2")
    ended = _check_java(tmp_path)
    assert 1 == ended.returncode
    assert 1 == len(ended.stderr.splitlines())
    assert 'openjdk version "11.0.2"' in ended.stderr
