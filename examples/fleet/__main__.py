"""Runs the pipeline on a fleet: `python -m examples.fleet --bootstrap HOST:PORT`."""

import argparse
import shlex
import sys
import tempfile
from collections.abc import Sequence
from contextlib import ExitStack, redirect_stdout
from pathlib import Path

from rich.console import Console

from examples.fleet.pipeline import FleetPlan, run
from linear_retry import LinearRetryError
from linear_retry.cli import app
from linear_retry.demo.display import json_proof, table
from linear_retry.spark.session import session


def main() -> None:
    """Reads the arguments; the exit code is 0 if everything found is true, else 1."""
    parser = argparse.ArgumentParser(prog="python -m examples.fleet", description=__doc__)
    parser.add_argument("--bootstrap", required=True, metavar="HOST:PORT", help="the Kafka cluster")
    parser.add_argument("--json", action="store_true", help="print the verdicts as one JSON object")
    arguments = parser.parse_args()
    try:
        holds = show_fleet(arguments.bootstrap, as_json=arguments.json)
    except LinearRetryError as error:
        sys.exit(f"error: {error}")
    sys.exit(not holds)


def show_fleet(bootstrap: str, *, as_json: bool = False, plan: FleetPlan | None = None) -> bool:
    """Runs the pipeline and prints the verdicts; returns whether all of them hold."""
    out = sys.stderr if as_json else sys.stdout
    directory = Path(tempfile.mkdtemp(prefix="linear-retry-demo-"))
    with ExitStack() as stack:

        def run_command(arguments: Sequence[str]) -> None:
            # One session for all commands: its start is not what is shown here.
            stack.enter_context(session())
            print(f"\n$ {shlex.join(['linear-retry', *arguments])}", file=out, flush=True)
            with redirect_stdout(out):
                _call(arguments)

        verdicts = run(
            bootstrap,
            directory,
            run_command,
            lambda text: print(text, file=out, flush=True),
            lambda text: print(text, file=sys.stderr),
            plan or FleetPlan(),
        )
    if as_json:
        print(json_proof(verdicts))
    else:
        console = (
            Console(highlight=False)
            if sys.stdout.isatty()
            else Console(color_system=None, width=110)
        )
        console.print(table(verdicts, "what was found, compared with the model"))
        print(*sorted(directory.iterdir()), sep="\n")
    return all(verdict.holds for verdict in verdicts)


def _call(arguments: Sequence[str]) -> None:
    """Calls `linear-retry` as from a shell; ends the program where it fails."""
    code = app(list(arguments), prog_name="linear-retry", standalone_mode=False)
    if code:
        sys.exit(code)


if __name__ == "__main__":
    main()
