"""Where does a proposed strategy go, and may it?"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from linear_retry.cli.output.exit_codes import UNAVAILABLE, USAGE_ERROR, fail
from linear_retry.files import small
from linear_retry.strategy.file import format_file


@dataclass(frozen=True, slots=True)
class Target:
    """The file of `--to`, if there is one, and whether it may be there already."""

    path: Path | None
    force: bool

    def check(self) -> None:
        """Before any work is done for nothing: ends the command where it could not be written."""
        if self.path is None:
            return
        shown = small.named(self.path)
        if self.path.is_dir() or not self.path.parent.is_dir():
            fail(f"{shown}: no file can be there; give --to a file in a directory", USAGE_ERROR)
        if self.path.exists() and not self.force:
            fail(f"{shown}: is there already; add --force to overwrite it", USAGE_ERROR)

    def write(self, delays_ms: Sequence[int], description: str) -> None:
        """Write it whole, or end the command without having written anything."""
        if self.path is None:
            return
        try:
            small.write(self.path, format_file(delays_ms, description).encode())
        except ValueError as error:
            fail(f"{error}; check the directory and its permissions", UNAVAILABLE)
