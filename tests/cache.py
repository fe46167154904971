"""The checkout's `.cache`: what tests fetch once and then only look up."""

from pathlib import Path

CACHE = Path(__file__).parents[1] / ".cache"


def publish(made: Path, target: Path) -> None:
    """Move a complete directory to its place in the cache, unless another process was faster.

    A download that was cut short must never pass for a finished one.
    """
    try:
        made.rename(target)
    except OSError:
        if not target.is_dir():
            raise
