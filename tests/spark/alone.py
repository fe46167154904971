"""A command in a process and a Spark session of its own, from which signals end it.

`python -m tests.spark.alone SETTINGS ARGUMENTS`: the settings are more of the session's, as JSON.
"""

import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from threading import Event

from pyspark.sql import SparkSession

from linear_retry.cli import app
from linear_retry.spark import session
from tests.spark.beside import Child
from tests.spark.conftest import INTERPRETED, settings

READY = "Spark is ready"
_SESSION = session.session


@contextmanager
def alone(more: Mapping[str, str], *arguments: str) -> Iterator[Child]:
    """Begins as the block does, and is killed at its end, with all of its processes."""
    with subprocess.Popen(
        [sys.executable, "-m", "tests.spark.alone", json.dumps(more), *arguments],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    ) as child:
        try:
            yield child
        finally:
            if child.poll() is None:
                os.killpg(child.pid, signal.SIGKILL)


def read_until(child: Child, text: str) -> None:
    """Reads what it writes to stderr, as far as the line with that text."""
    assert child.stderr is not None
    lines = list[str]()
    for line in child.stderr:
        lines.append(line)
        if text in line:
            return
    raise AssertionError(f"it has ended without {text!r}: {''.join(lines)}")


@contextmanager
def _session(
    master: str | None = None, more: Mapping[str, str] | None = None, stop: Event | None = None
) -> Iterator[SparkSession]:
    ours = settings() | INTERPRETED | json.loads(sys.argv[1]) | (more or {})
    with _SESSION(master or "local[2]", ours, stop) as spark:
        print(READY, file=sys.stderr, flush=True)
        yield spark


if __name__ == "__main__":
    session.session = _session
    app(sys.argv[2:])
