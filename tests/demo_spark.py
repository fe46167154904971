"""`make demo-spark`: the fleet of `examples/fleet` on a broker started for it."""

import sys
import tempfile
from pathlib import Path

from examples.fleet.__main__ import show_fleet
from linear_retry.spark.session import session
from tests.kafka_jars import NoBrokerError
from tests.real_kafka import RealKafka
from tests.spark.conftest import settings


def main() -> None:
    """Starts a broker and a session like that of the tests, and runs the pipeline."""
    with (
        tempfile.TemporaryDirectory() as directory,
        RealKafka(Path(directory)) as kafka,
        session("local[*]", settings()),
    ):
        holds = show_fleet(kafka.bootstrap)
    sys.exit(not holds)


if __name__ == "__main__":
    try:
        main()
    except NoBrokerError as error:
        sys.exit(f"error: {error}")
