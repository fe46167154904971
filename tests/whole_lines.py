"""What another process has written so far, while it goes on writing."""

from pathlib import Path


def whole_lines(path: Path) -> list[str]:
    """The lines of this file that are ended: of the one behind them, there may be only a part."""
    return path.read_text(errors="replace").rpartition("\n")[0].splitlines()
