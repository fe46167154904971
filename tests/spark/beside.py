"""A command on Spark in a process of its own, beside what the test's process does."""

import signal
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TypeAlias

from tests.patience import PATIENCE_S

Child: TypeAlias = subprocess.Popen[str]


@contextmanager
def beside(*arguments: str) -> Iterator[Child]:
    """Begins as the block does, and is ended with it; a failing test shows what it wrote."""
    # A pipe that nobody reads would halt it, once Spark has written a few of its stack traces.
    with (
        tempfile.TemporaryFile("w+") as said,
        subprocess.Popen(
            [sys.executable, "-m", "tests.spark.command", *arguments],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=said,
            text=True,
        ) as child,
    ):
        child.stderr = said
        assert child.stdout is not None
        assert child.stdin is not None
        try:
            assert "ready\n" == child.stdout.readline()
            child.stdin.write("\n")
            child.stdin.flush()
            yield child
        finally:
            if child.poll() is None:
                child.send_signal(signal.SIGTERM)
            try:
                child.wait(PATIENCE_S)
            except subprocess.TimeoutExpired:
                child.kill()
                raise
            finally:
                sys.stderr.write(said_by(child))


def said_by(child: Child) -> str:
    """What it has written to stderr until its end."""
    assert child.stderr is not None
    child.stderr.seek(0)
    return child.stderr.read()
