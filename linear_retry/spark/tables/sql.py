"""How is an expression put together as text?

By the API of columns, each of which asks the JVM for every operator, Python takes a second or two
to make those of a table. A pattern has no backslash: what one means is a setting of the session's.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from pyspark.sql import Column
from pyspark.sql import functions as F  # noqa: N812  (its usual name)


def columns(*expressions: str) -> tuple[Column, ...]:
    """Of names, and of expressions that have one."""
    # A name is not parsed: some, `offset` for one, are reserved where a session wants that.
    return tuple(F.col(each) if each.isidentifier() else F.expr(each) for each in expressions)


def texts(values: Iterable[str]) -> str:
    """The literals, with commas between."""
    return ", ".join(f"'{value}'" for value in values)


def array(values: Iterable[str]) -> str:
    return f"array({', '.join(values)})"


def present(values: Iterable[str]) -> str:
    """Those that are not NULL, each once. `array_compact` has a lambda, which is interpreted."""
    return f"array_except({array(values)}, array(NULL))"


def struct(fields: Mapping[str, str]) -> str:
    pairs = (f"'{name}', {value}" for name, value in fields.items())
    return f"named_struct({', '.join(pairs)})"


def when(condition: str, value: str) -> str:
    """NULL where it is not so."""
    return f"CASE WHEN {condition} THEN {value} END"


def between(value: str, least: int, most: int) -> str:
    # With `BETWEEN`, Spark computes the value in a step before, of its own.
    return f"({value} >= {least} AND {value} <= {most})"


def surely(condition: str) -> str:
    """False where it is NULL."""
    return f"coalesce({condition}, false)"
