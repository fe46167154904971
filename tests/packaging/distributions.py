"""Builds, checks, installs and renders the package with the tools of packagers and of PyPI."""

import hashlib
import os
import subprocess
import sys
import tempfile
import tomllib
from pathlib import Path

from tests.cache import CACHE, publish
from tests.docs.markdown import ROOT

PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))
_TOOLS = (*PROJECT["build-system"]["requires"], "readme-renderer[md]>=44", "twine>=6.1")
_BUILD = "import hatchling.build, sys; print(hatchling.build.build_{what}(sys.argv[1]))"
_RENDER = (
    "import sys; from readme_renderer import markdown; print(markdown.render(sys.stdin.read()))"
)


def build(what: str, source: Path, target: Path) -> Path:
    """Build a "wheel" or an "sdist" of the project at `source` into `target`."""
    output = _run("-c", _BUILD.format(what=what), str(target), cwd=source)
    return target / output.splitlines()[-1]


def check(*distributions: Path) -> None:
    """Raise if PyPI would refuse one of them, or could not show its description."""
    _run("-m", "twine", "check", "--strict", *map(str, distributions), cwd=ROOT)


def rendered(description: str) -> str:
    """HTML as PyPI makes it of a long description in Markdown."""
    return _run("-c", _RENDER, cwd=ROOT, stdin=description)


def install(wheel: Path, target: Path) -> None:
    """Install this wheel alone, with its commands in `target/bin`; nothing is fetched."""
    options = ("--no-deps", "--no-index", "--disable-pip-version-check", "--target", str(target))
    _run("-m", "pip", "install", "--quiet", *options, str(wheel), cwd=target.parent)


def _run(*arguments: str, cwd: Path, stdin: str = "") -> str:
    done = subprocess.run(
        [sys.executable, *arguments],
        cwd=cwd,
        env={**os.environ, "PYTHONPATH": str(_tools())},
        input=stdin,
        capture_output=True,
        text=True,
        check=False,
    )
    assert 0 == done.returncode, done.stdout + done.stderr
    return done.stdout


def _tools() -> Path:
    """Where the tools are; fetched anew for another Python, and where others are required."""
    names = " ".join((sys.version.partition(" ")[0], *_TOOLS))
    tools = CACHE / f"packaging-{hashlib.sha256(names.encode()).hexdigest()[:8]}"
    if not tools.is_dir():
        CACHE.mkdir(exist_ok=True)
        with tempfile.TemporaryDirectory(dir=CACHE, prefix="packaging-") as unfinished:
            made = Path(unfinished) / "tools"
            pip = (sys.executable, "-m", "pip", "install", "-q", "--disable-pip-version-check")
            subprocess.run([*pip, "--target", str(made), *_TOOLS], check=True)
            publish(made, tools)
    return tools
