"""Programs of Debian packages, for tests on a machine that lacks them."""

import re
import shutil
import subprocess
import tempfile
from pathlib import Path

from tests.cache import CACHE, publish

_LIMIT_S = 300


class NoPackageError(Exception):
    """A package cannot be had on this machine; the message says why, and what to do."""


def unpacked(package: str, cache: Path = CACHE, *, alone: bool = False) -> Path:
    """A directory with what is in this package and, unless `alone`, in what it needs and lacks.

    Fetched at the first call with apt, which needs neither root nor lists of its own for that;
    then only looked up. Nothing is installed.
    """
    target = cache / package
    if not target.is_dir():
        cache.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(dir=cache, prefix=f"{package}-") as unfinished:
            made = _fetched(package, Path(unfinished), alone=alone)
            made.chmod(0o755)
            publish(made, target)
    return target


def _fetched(package: str, directory: Path, *, alone: bool) -> Path:
    missing = [name for name in ("apt-get", "dpkg") if shutil.which(name) is None]
    if missing:
        raise NoPackageError(
            f"tests need Debian's package {package}, and there is no {missing[0]} to fetch it "
            "with: install it, or what it holds, so that it is on the path"
        )
    (directory / "lists/partial").mkdir(parents=True)
    (directory / "archives/partial").mkdir(parents=True)
    # Lists of our own, for a user's eyes only: those of the machine may be missing, or root's.
    options = (
        f"Dir::State::lists={directory}/lists",
        f"Dir::Cache={directory}",
        "APT::Sandbox::User=",
        "APT::Install-Recommends=false",
        "Acquire::Languages=none",
        "Acquire::IndexTargets::deb::DEP-11::DefaultEnabled=false",
        "Acquire::Retries=3",
    )
    apt = ("apt-get", "-q", *(f"-o{option}" for option in options))
    _run(package, directory, *apt, "update")
    names = [package]
    if not alone:
        wanted = _run(package, directory, *apt, "--simulate", "install", package)
        names = re.findall(r"^Inst (\S+)", wanted, re.MULTILINE)
    _run(package, directory, *apt, "download", *names)
    for archive in sorted(directory.glob("*.deb")):
        _run(package, directory, "dpkg", "-x", str(archive), str(directory / "package"))
    return directory / "package"


def _run(package: str, directory: Path, *command: str) -> str:
    done = subprocess.run(
        command, cwd=directory, capture_output=True, text=True, check=False, timeout=_LIMIT_S
    )
    if done.returncode:
        last = (done.stdout + done.stderr).strip()[-1500:]
        raise NoPackageError(f"`{' '.join(command)}` did not fetch {package}:\n{last}")
    return done.stdout
