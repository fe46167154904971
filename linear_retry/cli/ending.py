"""How does a command end, and what does it say where it cannot go on?"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import NoReturn

import typer

from linear_retry.errors import ConfigurationError, FencedError, LinearRetryError

WRONG_USAGE, NOT_THERE, FENCED, NOT_KNOWN, INTERRUPTED = 2, 3, 4, 5, 130


@contextmanager
def told() -> Iterator[None]:
    """What is raised inside becomes one sentence on stderr and an exit code."""
    try:
        yield
    except ConfigurationError as error:
        fail(str(error), WRONG_USAGE)
    except FencedError as error:
        fail(str(error), FENCED)
    except LinearRetryError as error:
        fail(str(error), NOT_THERE)
    except KeyboardInterrupt:
        fail("interrupted", INTERRUPTED)


def fail(text: str, code: int) -> NoReturn:
    """Say it on stderr, and end with this exit code."""
    typer.echo(text, err=True)
    raise typer.Exit(code)
