"""Finds the cause in the many lines of Spark's errors."""

import re

from py4j.protocol import Py4JJavaError  # type: ignore[import-untyped]  # it has no types

JavaError = Py4JJavaError
"""An exception of the JVM for which PySpark has no class of its own."""

_CAUSE = re.compile(r"^(?:Caused by: |: )?([\w.$]*(?:Error|Exception)\b.*)$", re.MULTILINE)
_CLASS = re.compile(r"^[\w.$]*(?:Error|Exception): ")
_CODE = re.compile(r"^\[[A-Z0-9_.]+\] ")
_OF_FILES = ("[FAILED_READ_FILE", "[CANNOT_READ")
_CONCURRENT = (
    *("CONCURRENT_STREAM_LOG_UPDATE", "is already active", "are concurrently using"),
    *("DELTA_CONCURRENT_", "DELTA_METADATA_CHANGED", "DELTA_PROTOCOL_CHANGED"),
)
_LONGEST = 500


def last_cause(text: str) -> str:
    """The last of the causes that Spark lists, in one line; else its first line."""
    causes = _CAUSE.findall(text) or text.strip().splitlines()[:1] or [""]
    return str(causes[-1])[:_LONGEST]


def is_concurrent(text: str) -> bool:
    """Whether it is what Spark or Delta Lake says to the slower of two that write the same."""
    return any(each in text for each in _CONCURRENT)


def is_sql_error(text: str) -> bool:
    """Whether an SQL expression is the cause, and not a file or the cluster."""
    line = _CLASS.sub("", last_cause(text))
    return _CODE.match(line) is not None and not line.startswith(_OF_FILES)
