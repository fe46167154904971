"""What is said where PySpark is missing?"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from linear_retry.cli.ending import NOT_THERE, fail


@contextmanager
def needing_pyspark() -> Iterator[None]:
    """What is imported inside may need it: then its extra is named, with an exit code."""
    try:
        yield
    except ModuleNotFoundError as error:
        if (error.name or "").partition(".")[0] not in ("pyspark", "py4j"):
            raise
        fail("PySpark is missing: pip install 'linear-retry[spark]'", NOT_THERE)
