"""The Makefile runs everything with the Python that is asked for."""

import os
import subprocess

import pytest

from tests.docs.markdown import ROOT


@pytest.mark.parametrize(
    ("python", "venv"),
    [
        ("python3", ".venv"),
        ("/usr/bin/python3", ".venv"),
        ("python3.13", ".venv-python3.13"),
        ("/opt/bin/python3.12", ".venv-python3.12"),
    ],
)
def test_the_venv_follows_the_python(python: str, venv: str) -> None:
    """One Python's tests ran in another's venv, where only VENV was not changed with PYTHON."""
    command = ("make", "--dry-run", f"PYTHON={python}", "rules")
    # What a surrounding make has set would be set here too.
    outside = {name: value for name, value in os.environ.items() if not name.startswith("MAKE")}
    done = subprocess.run(
        command, cwd=ROOT, env=outside, capture_output=True, text=True, check=True
    )
    assert f"{venv}/bin/python -m tests.rules" in done.stdout
