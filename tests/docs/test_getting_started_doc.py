"""docs/getting-started.md is true."""

import os
import re
import shlex
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from typer.testing import CliRunner

from linear_retry.cli import app
from tests.docs.markdown import ROOT, blocks, page
from tests.patience import PATIENCE_S
from tests.real_kafka import RealKafka

_PAGE = page("docs/getting-started.md")
_BROKER, _TOPICS, _BILLING, _ORDERS = blocks(_PAGE, "python")
_SHOWN = [line for block in blocks(_PAGE, "text") for line in block.splitlines()]
_COMMANDS = [line for block in blocks(_PAGE, "console") for line in block.splitlines()]


@pytest.mark.broker
def test_what_is_shown_happens(own_kafka: RealKafka, tmp_path: Path) -> None:
    """From no topics to a retry, a dead letter and a clean end, by the page's own programs."""
    subprocess.run(_program(_TOPICS, own_kafka.bootstrap), check=True, timeout=PATIENCE_S)
    _follow(own_kafka.bootstrap, tmp_path)


def test_it_happens_without_java_and_docker_too(tmp_path: Path) -> None:
    """On the broker of the page's first program, which ends on Ctrl-C."""
    with _running(_BROKER, "", tmp_path) as broker:
        (bootstrap,) = _until(broker, ":")
        _follow(bootstrap, tmp_path)
        broker.send_signal(signal.SIGINT)
        assert 0 == broker.wait(PATIENCE_S)


def _follow(bootstrap: str, directory: Path) -> None:
    with _running(_BILLING, bootstrap, directory) as billing:
        subprocess.run(_program(_ORDERS, bootstrap), check=True, timeout=PATIENCE_S)
        output = _until(billing, "failures: 2,")
        (directory / "bank-is-open").touch()
        output += _until(billing, "charged lamp")
        billing.send_signal(signal.SIGINT)
        output += billing.communicate(timeout=PATIENCE_S)[0].splitlines()
    assert 0 == billing.returncode, output
    lines = [_without_numbers(line) for line in output]
    assert [] == [line for line in _SHOWN if _without_numbers(line) not in lines]
    (command,) = "".join(blocks(_PAGE, "sh")).splitlines()
    _, *arguments = shlex.split(command.replace("localhost:9092", bootstrap))
    assert "not an order" in CliRunner().invoke(app, arguments).stdout


def _program(text: str, bootstrap: str) -> list[str]:
    return [sys.executable, "-c", text.replace("localhost:9092", bootstrap)]


@contextmanager
def _running(text: str, bootstrap: str, directory: Path) -> Iterator[subprocess.Popen[str]]:
    """Runs a program of the page; kills it at the end."""
    with subprocess.Popen(
        _program(text, bootstrap),
        cwd=directory,
        env=os.environ | {"PYTHONUNBUFFERED": "1", "PYTHONPATH": str(ROOT)},
        text=True,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
    ) as process:
        try:
            yield process
        finally:
            process.kill()


def _until(child: subprocess.Popen[str], wanted: str) -> list[str]:
    """What the program says, up to the line that has `wanted`."""
    assert child.stdout is not None
    output: list[str] = []
    for line in child.stdout:
        output.append(line.rstrip("\n"))
        if wanted in line:
            return output
    pytest.fail("\n".join(output))


def _without_numbers(line: str) -> str:
    digest = re.sub(r"/[0-9a-f]{12}\b", "/0", line)  # of a message, in an id
    return re.sub(r"\d+", "0", digest)


def test_files_that_are_named_exist() -> None:
    """The Compose file, with the service that is run."""
    files = {word for line in _COMMANDS for word in line.split() if word.startswith("examples/")}
    assert {"examples/plain/compose.yaml"} == files
    assert "\n  topics:\n" in page("examples/plain/compose.yaml")
