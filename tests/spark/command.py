"""`python -m tests.spark.command ARGUMENTS`: a command, in a Spark session for tests.

It says when it has that session, and begins once it is given a line.
"""

import sys

from linear_retry.cli import app
from linear_retry.spark import DEAD_LETTERS
from linear_retry.spark.ingestion.ingest import TABLES
from linear_retry.spark.session import session
from tests.spark.conftest import INTERPRETED, settings
from tests.spark.killed import places

if __name__ == "__main__":
    TABLES[DEAD_LETTERS] = places
    with session("local[1]", settings() | INTERPRETED):
        print("ready", flush=True)
        sys.stdin.readline()
        app(sys.argv[1:])
