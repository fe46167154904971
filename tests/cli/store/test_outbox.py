"""`linear-retry outbox run` as a process: it sends what outboxes have stored."""

import json
import signal
import subprocess
import sys
import urllib.request
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from linear_retry.cli import app
from linear_retry.outbox import Outbox
from tests import dying_with_parent
from tests.conftest import TopicFactory
from tests.kafka_operations import wait_until
from tests.outbox.conftest import down
from tests.patience import PATIENCE_S
from tests.real_kafka import RealKafka
from tests.whole_lines import whole_lines

pytestmark = pytest.mark.broker
__all__ = ["down"]


def test_it_sends_what_was_stored(
    kafka: RealKafka,
    topic: TopicFactory,
    sqlite_url: str,
    tmp_path: Path,
    down: dict[str, Any],
) -> None:
    """Until it is asked to end, with 0; an outbox that was down had left it there. Its probes say
    that it works, and its metrics what it has sent."""
    name = topic()
    with Outbox(down | {"message.timeout.ms": 100}, store=sqlite_url, sender=False) as outbox:
        outbox.produce(name, b"1", b"k")
    command = [sys.executable, "-c", "from linear_retry.cli import main; main()", "outbox", "run"]
    command += ["--store", sqlite_url, "-b", kafka.bootstrap, "--json", "--http", "127.0.0.1:0"]
    log = tmp_path / "log"
    with log.open("wb") as file:
        process = subprocess.Popen(dying_with_parent.guarded(*command), stderr=file)
    try:
        wait_until(lambda: kafka.read(name), "it is sent", log.read_text)
        address = next(each["address"] for each in _lines(log) if each.get("event") == "Listening")
        sent = 'linear_retry_store_sent_total{service="outbox"} 1.0'
        wait_until(lambda: sent in _get(f"{address}/metrics"), "it is counted")
        for path in ("livez", "readyz"):
            assert {"ok": True} == json.loads(_get(f"{address}/{path}"))
        process.send_signal(signal.SIGTERM)
        assert 0 == process.wait(PATIENCE_S)
    finally:
        process.kill()
        process.wait(PATIENCE_S)
    assert [b"1"] == [each.value() for each in kafka.read(name)]
    assert "LeasesTaken" in [each.get("event") for each in _lines(log)]


def _lines(log: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in whole_lines(log)]


def _get(url: str) -> str:
    with urllib.request.urlopen(url, timeout=PATIENCE_S) as answer:
        text: str = answer.read().decode()
        return text


@pytest.mark.parametrize(
    ("more", "code", "says"),
    [
        (["--strategy", "no-such"], 2, "no-such"),
        (["--http", "0.0.0.0:0"], 2, "without users, it listens on this machine alone"),
        (["--store", "mysql://u:secret@h/d"], 2, "must be postgresql://"),
        (["--store", "postgresql://127.0.0.1:1/none"], 3, "a later attempt may succeed"),
    ],
)
def test_misuse_is_one_sentence(more: list[str], code: int, says: str, sqlite_url: str) -> None:
    """It names the value, and shows no password."""
    arguments = ["outbox", "run", "--store", sqlite_url, "-b", "127.0.0.1:1", *more]
    result = CliRunner().invoke(app, arguments)
    assert code == result.exit_code
    assert says in result.output
    assert "secret" not in result.output
