"""`linear-retry scheduler run` as a process: its start, its log, its API and its end."""

import json
import re
import signal
import urllib.request
from contextlib import closing
from pathlib import Path

import pytest
from typer.testing import CliRunner

from linear_retry.cli import app
from linear_retry.scheduler.destination_setting import remembered
from linear_retry.scheduler.destinations import Destinations
from linear_retry.store.database import Database
from tests.conftest import TopicFactory
from tests.kafka_operations import wait_until
from tests.patience import PATIENCE_S
from tests.real_kafka import RealKafka
from tests.scheduler.process import running_process
from tests.scheduler.running import records, request

pytestmark = pytest.mark.broker


def test_from_start_to_sigterm(kafka: RealKafka, topic: TopicFactory, tmp_path: Path) -> None:
    """Without a store it makes its file; it logs objects, answers probes, sends what is due, and
    ends with 0 when it is asked to."""
    intake, destination = topic(), topic()
    kafka.produce(intake, [(0, b"k", b"secret", request(destination))])
    with running_process(kafka, intake, tmp_path, "--json", "--http", "127.0.0.1:0") as running:
        listening = json.loads(running.wait_for_line("Listening"))
        wait_until(lambda: records(kafka, destination), "it is sent")
        with urllib.request.urlopen(f"{listening['address']}/readyz", timeout=PATIENCE_S) as answer:
            assert 200 == answer.status
        url = f"{listening['address']}/api/v1/statistics"
        with urllib.request.urlopen(url, timeout=PATIENCE_S) as answer:
            assert [] == json.load(answer)["waiting"]
        running.process.send_signal(signal.SIGTERM)
        assert 0 == running.process.wait(PATIENCE_S)
    url = f"sqlite:///{tmp_path / 'linear-retry.sqlite3'}"
    with closing(Database(url)) as store, store.reading() as connection:
        assert {intake: Destinations(intake, ("*",))} == remembered(connection)
    assert "SchedulerStarted" in [json.loads(line).get("event") for line in running.lines()]
    assert not re.search("secret|Context impl", "".join(running.lines()))


@pytest.mark.parametrize(
    ("more", "code", "says"),
    [
        (["--http", "0.0.0.0:0"], 2, "without users, it listens on this machine alone"),
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
