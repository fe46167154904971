"""Prints the figures as a table, and as JSON."""

import json
import sys
from collections.abc import Mapping

from benchmarks.figures import Figure, Result, shown


def table(name: str, result: Result) -> str:
    """One line for each figure: median, lowest and highest round, target and verdict."""
    lines = [f"\n{name}", *map(_line, result.figures)]
    return "\n".join([*lines, *(f"  {note}" for note in result.notes)])


def say(text: str) -> None:
    """Tells how far a long benchmark is, beside its figures."""
    print(f"  ... {text}", file=sys.stderr, flush=True)


def as_json(about: Mapping[str, str], results: Mapping[str, Result]) -> str:
    """What was run and where, and each benchmark's figures and notes by its name."""
    report = {
        name: {
            "figures": [figure.as_json() for figure in result.figures],
            "notes": list(result.notes),
        }
        for name, result in results.items()
    }
    return json.dumps({"about": about, "benchmarks": report}, indent=2)


def _line(figure: Figure) -> str:
    value = f"{shown(figure.median)} {figure.unit}"
    spread = f"{shown(min(figure.rounds))} … {shown(max(figure.rounds))}"
    target = "" if figure.target is None else f"{figure.target}: {figure.verdict}"
    return f"  {figure.name:<50} {value:>20}  ({spread})  {target}".rstrip()
