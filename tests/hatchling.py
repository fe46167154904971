"""Builds the package as `pip` would, by a build backend that is fetched once into .cache."""

import os
import subprocess
import sys
from pathlib import Path

from tests.docs.markdown import ROOT

_CACHE = ROOT / ".cache" / "hatchling"
_REQUIRED = "hatchling>=1.27"


def build(what: str, source: Path, target: Path) -> Path:
    """Build a "wheel" or an "sdist" of the project at `source` into `target`."""
    if not _CACHE.is_dir():
        pip = (sys.executable, "-m", "pip", "install", "-q", "--disable-pip-version-check")
        unfinished = _CACHE.with_name(f"hatchling.{os.getpid()}")
        subprocess.run([*pip, "--target", str(unfinished), _REQUIRED], check=True)
        unfinished.rename(_CACHE)
    program = f"import hatchling.build, sys; print(hatchling.build.build_{what}(sys.argv[1]))"
    done = subprocess.run(
        [sys.executable, "-c", program, str(target)],
        cwd=source,
        env={**os.environ, "PYTHONPATH": str(_CACHE)},
        capture_output=True,
        text=True,
        check=True,
    )
    return target / done.stdout.splitlines()[-1]
