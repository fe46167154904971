"""`make demo-spark`: the pipeline on a fleet, on a broker that is there only for it."""

from __future__ import annotations

import sys
import tempfile
from pathlib import Path

from linear_retry.cli import app
from linear_retry.spark.session import session
from tests.kafka_jars import NoBrokerError
from tests.real_kafka import RealKafka
from tests.spark.conftest import settings


def main() -> None:
    """A broker, a session like that of the tests, and the command."""
    with (
        tempfile.TemporaryDirectory() as directory,
        RealKafka(Path(directory)) as kafka,
        session("local[*]", settings()),
    ):
        app(["demo", "--spark", "--bootstrap", kafka.bootstrap], prog_name="linear-retry")


if __name__ == "__main__":
    try:
        main()
    except NoBrokerError as error:
        sys.exit(f"error: {error}")
