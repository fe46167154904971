"""`linear-retry scheduler run` as a process: its start, its log, its API and its end."""

import json
import re
import signal
import subprocess
import sys
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from typer.testing import CliRunner

from linear_retry.cli import app
from tests import dying_with_parent
from tests.conftest import TopicFactory
from tests.kafka_operations import wait_until
from tests.real_kafka import RealKafka
from tests.scheduler.running import records, request

pytestmark = pytest.mark.broker


class _Process:
    """The command, with its log in a file."""

    def __init__(self, process: subprocess.Popen[bytes], log: Path) -> None:
        self.process = process
        self._log = log

    def lines(self) -> list[str]:
        return self._log.read_text().splitlines()

    def wait_for_line(self, part: str) -> str:
        def find() -> str | None:
            assert self.process.poll() is None, self.lines()
            return next((line for line in self.lines() if part in line), None)

        return wait_until(find, part, 30, self.lines)


@contextmanager
def _running(kafka: RealKafka, topic: str, directory: Path, *more: str) -> Iterator[_Process]:
    command = [sys.executable, "-c", "from linear_retry.cli import main; main()", "scheduler"]
    command += ["run", "--topic", topic, "--allow", "*", "-b", kafka.bootstrap, *more]
    log = directory / "log"
    with log.open("wb") as file:
        process = subprocess.Popen(dying_with_parent.guarded(*command), cwd=directory, stderr=file)
    try:
        yield _Process(process, log)
    finally:
        process.kill()
        process.wait(30)


def test_from_start_to_sigterm(kafka: RealKafka, topic: TopicFactory, tmp_path: Path) -> None:
    """Without a store it makes its file; it logs objects, answers probes, sends what is due, and
    ends with 0 when it is asked to."""
    intake, destination = topic(), topic()
    kafka.produce(intake, [(0, b"k", b"secret", request(destination))])
    with _running(kafka, intake, tmp_path, "--json", "--http", "127.0.0.1:0") as running:
        listening = json.loads(running.wait_for_line("Listening"))
        wait_until(lambda: records(kafka, destination), "it is sent")
        with urllib.request.urlopen(f"{listening['address']}/readyz", timeout=10) as answer:
            assert 200 == answer.status
        url = f"{listening['address']}/api/v1/statistics"
        with urllib.request.urlopen(url, timeout=10) as answer:
            assert [] == json.load(answer)["waiting"]
        running.process.send_signal(signal.SIGTERM)
        assert 0 == running.process.wait(30)
    assert (tmp_path / "linear-retry.sqlite3").exists()
    assert "SchedulerStarted" in [json.loads(line).get("event") for line in running.lines()]
    assert not re.search("secret|Context impl", "".join(running.lines()))


@pytest.mark.parametrize(
    ("more", "code", "says"),
    [
        (["--http", "0.0.0.0:0"], 2, "without users, the API listens on this machine alone"),
        (["--http", "nowhere"], 2, "must be HOST:PORT"),
        (["--users", "/nowhere"], 2, "need --http"),
        (["--http", "127.0.0.1:0", "--tls-cert", "/x"], 2, "need one another"),
        (["--allow", "a b"], 2, "matches no topic"),
        (["--store", "mysql://u:secret@h/d"], 2, "must be postgresql://"),
        (["--topic", "no topic"], 2, "the name of a topic"),
        (["--store", "postgresql://127.0.0.1:1/none"], 3, "a later attempt may succeed"),
    ],
)
def test_what_cannot_start(
    kafka: RealKafka, topic: TopicFactory, tmp_path: Path, more: list[str], code: int, says: str
) -> None:
    """One sentence for each misuse, and no traceback."""
    store = f"sqlite:///{tmp_path / 's.sqlite3'}"
    arguments = ["scheduler", "run", "--topic", topic(), "--allow", "orders", "--store", store]
    done = CliRunner().invoke(app, [*arguments, "-b", kafka.bootstrap, *more])
    assert (code, True) == (done.exit_code, says in " ".join(done.stderr.split()))
    assert "secret" not in done.stderr
