"""Tests that take a minute and two cores for themselves: plays, and none in `make test`."""

import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache

from tests.docs.markdown import ROOT
from tests.torture.layer import Broker, Counts, Tally, play_all

_PYTEST = (sys.executable, "-m", "pytest", "-q")
_CHOSEN = ("-m", "long", "tests/spark")


@cache
def long_tests() -> list[str]:
    """The ids of the tests that are marked so."""
    command = [*_PYTEST, "--collect-only", "--no-header", "--no-summary", *_CHOSEN]
    found = subprocess.run(command, cwd=ROOT, check=True, capture_output=True, text=True)
    return [line for line in found.stdout.splitlines() if "::" in line]


def _play(seed: int) -> Counts:
    test = long_tests()[seed % len(long_tests())]
    done = subprocess.run([*_PYTEST, test], cwd=ROOT, check=False, capture_output=True, text=True)
    assert 0 == done.returncode, f"{test}\n{done.stdout}{done.stderr}"
    return Counts({"tests": 1})


@dataclass(frozen=True, slots=True)
class LongTests:
    """Seed n is the nth of them, and they begin again after the last."""

    name: str = "long-tests"
    unit: str = "tests"
    short: int = 0

    @property
    def long(self) -> int:
        """All of them."""
        return len(long_tests())

    def run(self, first: int, amount: int, broker: Broker) -> Iterator[Tally]:
        for seed in range(first, first + amount):
            yield play_all(_play, range(seed, seed + 1))


LONG_TESTS = LongTests()
