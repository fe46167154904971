"""What is said where PySpark is missing, or what comes with its extra?"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from linear_retry.cli.output.exit_codes import UNAVAILABLE, fail

OF_THE_EXTRA = frozenset(
    [
        "altair",
        "jinja2",
        "markupsafe",
        "numpy",
        "pandas",
        "py4j",
        "pyarrow",
        "pyspark",
        "vl_convert",
    ]
)


@contextmanager
def needing_pyspark() -> Iterator[None]:
    """What is imported inside may need it: then its extra is named, with an exit code."""
    try:
        yield
    except ModuleNotFoundError as error:
        name = (error.name or "").partition(".")[0]
        if name not in OF_THE_EXTRA:
            raise
        fail(f"the package {name} is missing: pip install 'linear-retry[spark]'", UNAVAILABLE)
