"""Runs the tests of a rule without it."""

from __future__ import annotations

import compileall
import importlib
import multiprocessing
import os
import py_compile
import shutil
import sys
import tempfile
import time
from collections import deque
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from multiprocessing.connection import wait
from pathlib import Path
from typing import Any, Literal, TypeAlias

from tests.rules.library import Library
from tests.rules.rule import PACKAGE, Rule, RuleError

ROOT = Path(__file__).parents[2]
LANES = 2
WITHIN_S = 120.0
"""Of one test; all of them together have a second more for each."""

Outcome: TypeAlias = Literal["killed", "survived", "hung", "error"]

# What importing takes longest is imported once; each trial is a fork of that process.
_IMPORTED = ("pytest", "asyncio", "hypothesis.strategies", "confluent_kafka.admin", "pybreaker")
# Not pytest's own codes: Python ends with 1 too, for reasons that have nothing to do with a test.
_COUNTED = 100
_PASSED, _FAILED = _COUNTED, _COUNTED + 1


@dataclass(frozen=True, slots=True)
class Trial:
    """What became of the test that is to die. `rule` None: all tests, with all rules in place."""

    rule: Rule | None
    outcome: Outcome
    took_s: float
    message: str
    """The line that the test failed with, or what pytest said."""


def trials(rules: Sequence[Rule], root: Path = ROOT) -> Iterator[Trial]:
    """Take one rule away at a time, and run its test; two at a time, each in a tree of its own.

    One more is of all these tests together, with all rules in place.
    """
    with _copies(root) as copies:
        library = Library(copies[0] / PACKAGE)
        waiting: deque[Rule | None] = deque([None, *rules])  # it takes longest
        running: dict[Any, _Running] = {}
        while waiting or running:
            while waiting and copies:
                rule = waiting.popleft()
                tests = [rule.test] if rule else sorted({rule.test for rule in rules})
                try:
                    removed = rule.removed_from(library) if rule else {}
                except RuleError as error:
                    yield Trial(rule, "error", 0.0, str(error))
                    continue
                started = _Running(copies.pop(), rule, removed, tests)
                running[started.process.sentinel] = started
            first_by_s = min((each.give_up_at_s for each in running.values()), default=0.0)
            ended = wait(list(running), timeout=max(first_by_s - time.monotonic(), 0))
            late = [key for key, each in running.items() if each.give_up_at_s <= time.monotonic()]
            for key in dict.fromkeys([*ended, *late]):
                over = running.pop(key)
                yield over.end()
                copies.append(over.copy)


class _Running:
    """One pytest, in a copy of the tree with one rule less."""

    def __init__(
        self, copy: Path, rule: Rule | None, removed: dict[str, str], tests: list[str]
    ) -> None:
        self.copy = copy
        self._rule = rule
        self._kept = {path: (copy / PACKAGE / path).read_text() for path in removed}
        self._write(removed)
        self._began_s = time.monotonic()
        self._within_s = WITHIN_S + len(tests) - 1
        self.give_up_at_s = self._began_s + self._within_s
        context = multiprocessing.get_context("forkserver")
        context.set_forkserver_preload(list(_IMPORTED))
        self.process = context.Process(target=_attempt, args=(str(copy), tests), daemon=True)
        self.process.start()

    def end(self) -> Trial:
        """What came of it, and the tree as it was."""
        hung = self.process.is_alive()
        if hung:
            self.process.kill()
        self.process.join()
        took_s, code = time.monotonic() - self._began_s, self.process.exitcode
        self._write(self._kept)
        message = _gist(_output(self.copy).read_text(errors="replace"))
        if hung:
            return Trial(self._rule, "hung", took_s, f"not over after {self._within_s:g} s")
        if code == _PASSED:
            return Trial(self._rule, "survived", took_s, message)
        if code == _FAILED:
            return Trial(self._rule, "killed" if self._rule else "error", took_s, message)
        return Trial(self._rule, "error", took_s, f"exit code {code}: {message}")

    def _write(self, texts: dict[str, str]) -> None:
        for path, text in texts.items():
            (self.copy / PACKAGE / path).write_text(text)


def _attempt(copy: str, tests: list[str]) -> None:
    """In a process of its own."""
    with _output(Path(copy)).open("wb") as file:
        os.dup2(file.fileno(), 1)
        os.dup2(file.fileno(), 2)
    os.chdir(copy)
    os.environ["CI"] = "1"  # the same Hypothesis examples each time, and none remembered
    sys.dont_write_bytecode = False  # the tests of a tree are the same each time
    sys.path.insert(0, copy)
    for name in [name for name in sys.modules if name.split(".")[0] in ("tests", PACKAGE)]:
        del sys.modules[name]
    imported = importlib.import_module(PACKAGE)
    if not Path(str(imported.__file__)).is_relative_to(copy):
        raise AssertionError(f"{imported.__file__} is not in {copy}: nothing was taken away")
    pytest = importlib.import_module("pytest")
    options = ["-q", "-x", "--tb=short", "--show-capture=no", "-p", "no:cacheprovider"]
    # It says that Hypothesis was imported before it could be rewritten, which is so.
    quiet = ["-p", "no:anyio", "-W", "ignore::pytest.PytestAssertRewriteWarning"]
    sys.exit(_COUNTED + int(pytest.main([*options, *quiet, f"--rootdir={copy}", *tests])))


def _gist(output: str) -> str:
    """The first line of the failure, or else the last of all."""
    lines = output.splitlines()
    failures = [line.removeprefix("E").strip() for line in lines if line.startswith("E  ")]
    return (failures or lines[-1:] or ["nothing"])[0]


def _output(copy: Path) -> Path:
    return copy.with_suffix(".out")


@contextmanager
def _copies(root: Path) -> Iterator[list[Path]]:
    """Trees with what the tests need, one for each lane."""
    with tempfile.TemporaryDirectory(prefix="rules-") as directory:
        first, *others = [Path(directory).resolve() / f"lane-{n}" for n in range(LANES)]
        first.mkdir()
        for name in (PACKAGE, "tests"):
            shutil.copytree(root / name, first / name, ignore=shutil.ignore_patterns("__pycache__"))
        shutil.copy(root / "pyproject.toml", first)
        # Checked by their text and not by size and time: a changed file is never passed over.
        mode = py_compile.PycInvalidationMode.CHECKED_HASH
        compileall.compile_dir(first / PACKAGE, quiet=1, invalidation_mode=mode)
        for other in others:
            shutil.copytree(first, other)
        yield [first, *others]
