"""Ctrl-C and SIGTERM end a command on Spark while a job runs."""

import os
import signal
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
import typer
from pyspark.sql import SparkSession

from linear_retry.cli.output.exit_codes import exit_on_error
from linear_retry.spark.session import session
from tests.kafka_operations import wait_until
from tests.patience import PATIENCE_S

_LONG = "sum(id * 3 % 7)"
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


@pytest.mark.long
def test_a_signal_ends_a_job_and_spark() -> None:
    """With an exit code, and one word on stderr: no traceback."""
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
        child.send_signal(signal.SIGINT)
        output, message = child.communicate(timeout=PATIENCE_S)
    assert (130, "", "interrupted\n") == (child.returncode, output, message)


def test_a_signal_ends_a_job_of_a_session_that_goes_on(
    spark: SparkSession, capsys: pytest.CaptureFixture[str]
) -> None:
    """SIGTERM too: the next job is done."""
    stages = spark.sparkContext.statusTracker()

    def terminate() -> None:
        wait_until(stages.getActiveStageIds, "a job runs")
        os.kill(os.getpid(), signal.SIGTERM)

    with ThreadPoolExecutor() as pool:
        pressed = pool.submit(terminate)
        with pytest.raises(typer.Exit) as ended, exit_on_error(), session() as ours:
            ours.range(10**15).selectExpr(_LONG).collect()
        assert pressed.result() is None
    assert (143, "terminated\n") == (ended.value.exit_code, capsys.readouterr().err)
    assert 10 == spark.range(10).count()
