"""Fetches the jars where they are not, and prepares a broker: `python -m tests.kafka_jars`."""

import sys

from tests.kafka_jars import NoBrokerError, directory, java
from tests.real_kafka import archive_classes

try:
    java()
    print(directory())
    archive_classes()
except NoBrokerError as error:
    sys.exit(f"error: {error}")
