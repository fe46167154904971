"""What an extra installs is enough for what its users start."""

import subprocess
import sys
import tomllib
from collections.abc import Iterable
from importlib.metadata import PackageNotFoundError, packages_distributions, requires
from itertools import chain

import pytest
from packaging.requirements import Requirement

from tests.docs.markdown import ROOT
from tests.patience import PATIENCE_S

_PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
_EXTRAS: dict[str, list[str]] = _PROJECT["optional-dependencies"]
_STARTS = {
    "": ["linear_retry.cli", "linear_retry.dlq", "linear_retry.monitoring", "linear_retry.journal"],
    "demo": ["linear_retry.demo.service", "linear_retry.demo.run"],
    "console": ["linear_retry.console.app", "linear_retry.console.pages.audit"],
    "scheduler": ["linear_retry.scheduler.service", "linear_retry.outbox"],
    "spark": ["linear_retry.strategy.tuning.proposal", "linear_retry.spark"],
}


def _with_requirements(wanted: Iterable[str]) -> set[str]:
    """The distributions that pip installs for these requirements."""
    found: set[str] = set()
    waiting = [Requirement(each) for each in wanted]
    while waiting:
        each = waiting.pop()
        name = each.name.lower().replace("_", "-")
        if name in found:
            continue
        found.add(name)
        try:
            needed = map(Requirement, requires(name) or [])
        except PackageNotFoundError:  # of another platform
            continue
        extras = each.extras or {""}
        waiting += [
            one
            for one in needed
            if one.marker is None or any(one.marker.evaluate({"extra": extra}) for extra in extras)
        ]
    return found


def _missing_with(extra: str) -> list[str]:
    """The top-level packages of all extras that are not there with this one alone."""
    base = _PROJECT["dependencies"]
    there = _with_requirements([*base, *_EXTRAS.get(extra, [])])
    all_of_them = _with_requirements([*base, *chain.from_iterable(_EXTRAS.values())])
    return [
        package
        for package, distributions in packages_distributions().items()
        if {name.lower().replace("_", "-") for name in distributions} & (all_of_them - there)
        and not {name.lower().replace("_", "-") for name in distributions} & there
    ]


@pytest.mark.parametrize("extra", _STARTS)
def test_it_starts_with_its_own_libraries(extra: str) -> None:
    """Those of other extras are missing: `make demo` of a new user ended with a traceback once, as
    the command line had come to import numpy."""
    code = "import importlib, sys\nsys.modules |= dict.fromkeys(sys.argv[1].split(','))\n"
    code += "for name in sys.argv[2:]: importlib.import_module(name)"
    done = subprocess.run(
        [sys.executable, "-c", code, ",".join(_missing_with(extra)), *_STARTS[extra]],
        capture_output=True,
        text=True,
        check=False,
        timeout=PATIENCE_S,
    )
    assert (0, "") == (done.returncode, done.stderr)


def test_the_libraries_of_others_are_missing() -> None:
    """Else the test above would show nothing."""
    assert {"numpy", "sqlalchemy", "fastapi", "httpx"} <= set(_missing_with(""))
    assert "numpy" in _missing_with("scheduler")
    assert {"sqlalchemy", "numpy"} <= set(_missing_with("console"))
    assert {"sqlalchemy", "starlette"} <= set(_missing_with("spark"))
    assert {"starlette", "jinja2"}.isdisjoint(_missing_with("console"))
