"""Ctrl-C and SIGTERM end a command on Spark while a job runs."""

import signal
import subprocess
import sys
from pathlib import Path

import pytest

_ROOT = Path(__file__).parents[3]
_PROGRAM = """
import typer
from linear_retry.cli.output.exit_codes import exit_on_error
from linear_retry.spark.session import session
from tests.spark.conftest import settings

def work() -> None:
    with exit_on_error(), session("local[1]", settings()) as spark:
        spark.range(10).count()
        print("at work", flush=True)
        print(spark.range(10**15).selectExpr("sum(id * 3 % 7)").collect())

typer.run(work)
"""


@pytest.mark.parametrize(
    ("number", "code", "word"),
    [(signal.SIGINT, 130, "interrupted\n"), (signal.SIGTERM, 143, "terminated\n")],
)
def test_a_signal_ends_a_job_in_one_line(number: signal.Signals, code: int, word: str) -> None:
    """What Spark is at is ended, and Spark with it: an exit code, one word, no traceback."""
    child = subprocess.Popen(
        [sys.executable, "-c", _PROGRAM],
        cwd=_ROOT,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    with child:
        assert child.stdout is not None
        assert "at work\n" == child.stdout.readline()
        child.send_signal(number)
        output, message = child.communicate(timeout=60)
    assert (code, "", word) == (child.returncode, output, message)
