"""What of Spark's many lines says why?"""

from __future__ import annotations

import re

from py4j.protocol import Py4JJavaError  # type: ignore[import-untyped]  # it has no types

JavaError = Py4JJavaError
"""What the JVM has raised, where PySpark has no class of its own for it."""

_CAUSE = re.compile(r"^(?:Caused by: |: )?([\w.$]*(?:Error|Exception)\b.*)$", re.MULTILINE)
_CODE = re.compile(r"^\[[A-Z0-9_.]+\] ")
_OF_FILES = ("[FAILED_READ_FILE", "[CANNOT_READ")
_LONGEST = 500


def cause(told: str) -> str:
    """The last of the causes that Spark lists, in one line; else its first line."""
    causes = _CAUSE.findall(told) or told.strip().splitlines()[:1] or [""]
    return str(causes[-1])[:_LONGEST]


def is_of_sql(told: str) -> bool:
    """Whether that is what an expression of SQL has raised, and not the machinery below it."""
    line = _without_class(cause(told))
    return _CODE.match(line) is not None and not line.startswith(_OF_FILES)


def in_words(told: str) -> str:
    """The cause without names for programs: neither class, nor code, nor SQLSTATE."""
    line = _CODE.sub("", _without_class(cause(told)))
    return re.sub(r"\.?\s*SQLSTATE:.*$", "", line).rstrip(". ;")


def _without_class(line: str) -> str:
    return re.sub(r"^[\w.$]*(?:Error|Exception): ", "", line)
