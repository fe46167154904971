"""How does a table come of records, with nothing computed twice?"""

from __future__ import annotations

from functools import reduce
from typing import TypeAlias

from pyspark.sql import Column, DataFrame

Steps: TypeAlias = tuple[tuple[Column | str, ...], ...]
"""The columns of one select after another.

Not all in one: an expression that ten others use would be computed ten times. Columns are of no
data yet: made once they do for every batch.
"""


def table(records: DataFrame, steps: Steps) -> DataFrame:
    """What the last of the steps makes of them."""
    return reduce(lambda rows, step: rows.select(*step), steps, records)
