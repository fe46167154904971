"""How does a demo keep the consumer's log out of its picture?"""

from __future__ import annotations

import logging
from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def without_log_lines() -> Iterator[None]:
    """The consumer's log would go to stderr, through the picture; a handler of the user's stays."""
    logger, silence = logging.getLogger("linear_retry"), logging.NullHandler()
    logger.addHandler(silence)
    try:
        yield
    finally:
        logger.removeHandler(silence)
