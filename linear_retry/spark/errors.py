"""Finds the cause in the many lines of Spark's errors."""

import re

from py4j.protocol import Py4JJavaError  # type: ignore[import-untyped]  # it has no types

JavaError = Py4JJavaError
"""An exception of the JVM for which PySpark has no class of its own."""

_CAUSE = re.compile(r"^(?:Caused by: |: )?([\w.$]*(?:Error|Exception)\b.*)$", re.MULTILINE)
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
