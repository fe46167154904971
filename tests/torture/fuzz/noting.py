"""Notes which example failed."""

from collections.abc import Iterator
from contextlib import contextmanager

_LONGEST = 3000


@contextmanager
def noting(example: object) -> Iterator[None]:
    """What is raised inside says for what: an assertion alone does not."""
    try:
        yield
    except Exception as error:
        error.add_note(f"for {example!r}"[:_LONGEST])
        raise
