"""Options that the Spark commands share, and their error if PySpark is missing."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import typer

from linear_retry.cli.output.exit_codes import UNAVAILABLE, USAGE_ERROR, fail
from linear_retry.files import printable_path, write_atomically
from linear_retry.strategy.file import format_file

LAKE = Annotated[str, typer.Option(metavar="DIR", help="The directory or URI of the tables.")]
MASTER = Annotated[
    str | None,
    typer.Option(metavar="URL", help="Spark's master. The default is local[*]."),
]
COVER = Annotated[
    float,
    typer.Option(
        metavar="SHARE",
        min=0,
        max=1,
        help="The share of outages that the delays must outlast.",
    ),
]
PROBE_COST = Annotated[
    str,
    typer.Option(
        metavar="TIME",
        help="What one attempt costs, as time spent waiting; used for the proposed delays, as in "
        "`tune`.",
    ),
]
NO_KEYS = Annotated[
    bool,
    typer.Option(
        "--no-keys",
        help="Leave out the letters' keys, and the texts of exceptions, which may quote them.",
    ),
]


@dataclass(frozen=True, slots=True, kw_only=True)
class RecordedOutages:
    """The options of commands that learn from the table `episodes`."""

    group: Annotated[
        str | None, typer.Option(metavar="GROUP", help="Only outages of this consumer group.")
    ] = None
    current: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE", help="The current strategy. The default is the one in the journal."
        ),
    ] = None
    seed: Annotated[
        int,
        typer.Option(metavar="N", min=0, help="Random seed for the intervals."),
    ] = 1
    master: MASTER = None


@dataclass(frozen=True, slots=True, kw_only=True)
class ProposalFile:
    """The file that a proposed strategy is written to, if any."""

    to: Annotated[
        Path | None,
        typer.Option(metavar="FILE", help="Write the proposed strategy of one group to this file."),
    ] = None
    force: Annotated[bool, typer.Option("--force", help="Overwrite an existing file.")] = False

    def check(self) -> None:
        """Ends the command, before any work is done, if the file cannot be written."""
        if self.to is None:
            return
        shown = printable_path(self.to)
        if self.to.is_dir() or not self.to.parent.is_dir():
            fail(f"{shown}: not in an existing directory; give --to another file", USAGE_ERROR)
        if self.to.exists() and not self.force:
            fail(f"{shown}: exists already; add --force to overwrite it", USAGE_ERROR)

    def write(self, delays_ms: Sequence[int], description: str) -> None:
        """Writes the whole file, or ends the command without having written anything."""
        if self.to is None:
            return
        try:
            write_atomically(self.to, format_file(delays_ms, description).encode())
        except ValueError as error:
            fail(f"{error}; check the directory and its permissions", UNAVAILABLE)


@contextmanager
def require_pyspark() -> Iterator[None]:
    """Ends the command, naming the extra to install, if an import inside fails."""
    try:
        yield
    except ModuleNotFoundError as error:
        fail(f"{error}: pip install 'linear-retry[spark]'", UNAVAILABLE)
