"""Fetches the jars where they are not, and checks Java: `python -m tests.kafka_jars`."""

import sys

from tests.kafka_jars import NoBrokerError, directory, java

try:
    java()
    print(directory())
except NoBrokerError as error:
    sys.exit(f"error: {error}")
