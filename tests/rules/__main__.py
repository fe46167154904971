"""Takes each rule away and names the test that dies: `python -m tests.rules --rule commit`."""

import json
import sys
import time
from difflib import get_close_matches
from typing import Annotated

import typer

from tests.rules.rule import Rule, listed
from tests.rules.trial import Trial, trials


def main(
    rule: Annotated[list[str] | None, typer.Option(help="Only this one.")] = None,
    json_: Annotated[bool, typer.Option("--json", help="One object for each trial.")] = False,
) -> None:
    """Take away one rule of the loop at a time, and name the test that dies.

    Exit code 1 where one survives: a test is missing, or the rule is needless.

    Example: python -m tests.rules --rule commit
    """
    rules = chosen(rule or [])
    began_s, number, bad = time.monotonic(), 0, 0
    for trial in trials(rules):
        number += trial.rule is not None
        # One is of the tests themselves: that all pass with the rules in place.
        good = trial.outcome == ("killed" if trial.rule else "survived")
        bad += not good
        print(_object(trial) if json_ else _line(trial, number, len(rules)), flush=True)
    if not json_:
        took_s = time.monotonic() - began_s
        print(f"{len(rules)} rules, {bad} without a test that dies, in {took_s:.0f} s")
    sys.exit(bad > 0)


def chosen(names: list[str]) -> list[Rule]:
    """All, where none is named. Raises `typer.BadParameter`."""
    known = {rule.name: rule for rule in listed()}
    unknown = [name for name in names if name not in known]
    if unknown:
        close = get_close_matches(unknown[0], known, 5, 0.4)
        hint = f"such as {', '.join(close)}" if close else "they are in tests/rules/lists/"
        raise typer.BadParameter(f"{unknown[0]!r} is none of the {len(known)} rules: {hint}")
    return [known[name] for name in names] or list(known.values())


def _line(trial: Trial, number: int, count: int) -> str:
    if trial.rule is None:
        passed = trial.outcome == "survived"
        return f"with all rules in place: {'all tests pass' if passed else trial.message}"
    head = f"{number:3}/{count} {trial.outcome:8} {trial.took_s:4.1f} s  {trial.rule.name}"
    if trial.outcome == "killed":
        return f"{head}: {trial.rule.test}"
    return f"{head}: {trial.rule.test}\n    {trial.rule.law}\n    {trial.message}"


def _object(trial: Trial) -> str:
    rule = trial.rule
    named = {"rule": rule.name, "law": rule.law, "test": rule.test} if rule else {"rule": None}
    fields = {"outcome": trial.outcome, "took_s": round(trial.took_s, 2), "message": trial.message}
    return json.dumps(named | fields)


if __name__ == "__main__":
    typer.run(main)
