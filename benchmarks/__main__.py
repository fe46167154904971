"""`python -m benchmarks`: which benchmarks are run, and who reads their figures?"""

from __future__ import annotations

import argparse
import json
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import TypeAlias

from benchmarks import (
    closing,
    dead_letter,
    lone_message,
    memory,
    neighbours,
    retry,
    throughput,
    while_open,
)
from benchmarks.figures import Result, shown
from benchmarks.machine import machine
from benchmarks.scale import FULL, QUICK, Scale
from tests.kafka_jars import NoBrokerError
from tests.real_kafka import RealKafka

Benchmark: TypeAlias = Callable[[RealKafka, Scale], Result]

BENCHMARKS: dict[str, Benchmark] = {
    "throughput": throughput.run,
    "lone-message": lone_message.run,
    "retry": retry.run,
    "closing": closing.run,
    "dead-letter": dead_letter.run,
    "while-open": while_open.run,
    "memory": memory.run,
}
ALL: dict[str, Benchmark] = BENCHMARKS | {"neighbours": neighbours.run}


def main(arguments: list[str] | None = None) -> int:
    """Returns the exit code: 0 also where a figure misses its target, which a person judges."""
    chosen = _parser().parse_args(arguments)
    names = chosen.names or [*BENCHMARKS]
    names += ["neighbours"] if chosen.neighbours and "neighbours" not in names else []
    scale = QUICK if chosen.quick else FULL
    told: dict[str, object] = {"machine": machine()}
    with tempfile.TemporaryDirectory() as directory, RealKafka(Path(directory) / "kafka") as kafka:
        for name in names:
            result = ALL[name](kafka, scale)
            told[name] = [figure.as_json() for figure in result.figures]
            if not chosen.json:
                print(_table(name, result), flush=True)
    print(json.dumps(told, indent=2) if chosen.json else _machine_lines())
    return 0


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m benchmarks", description=main.__doc__)
    parser.add_argument("names", nargs="*", choices=[*ALL, []], metavar="NAME", help=", ".join(ALL))
    parser.add_argument("--quick", action="store_true", help="few rounds: for a first impression")
    parser.add_argument("--neighbours", action="store_true", help="other libraries too (installs)")
    parser.add_argument("--json", action="store_true", help="every round's value, for machines")
    return parser


def _table(name: str, result: Result) -> str:
    lines = [f"\n{name}"]
    for figure in result.figures:
        spread = f"{shown(min(figure.rounds))} … {shown(max(figure.rounds))}"
        value = f"{shown(figure.median)} {figure.unit}"
        target = "" if figure.target is None else f"{figure.target}: {figure.verdict}"
        lines.append(f"  {figure.name:<52} {value:>20}  ({spread})  {target}".rstrip())
    lines += [f"  {note}" for note in result.notes]
    return "\n".join(lines)


def _machine_lines() -> str:
    return "\n" + "\n".join(f"{key}: {value}" for key, value in machine().items())


if __name__ == "__main__":
    try:
        sys.exit(main())
    except NoBrokerError as error:
        sys.exit(f"error: {error}")
