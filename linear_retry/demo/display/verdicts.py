"""Shows the proof, as a table or as JSON."""

import json
from collections.abc import Iterable
from dataclasses import asdict

from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from linear_retry.demo.evidence import Verdict

_VIOLATIONS_SHOWN = 5


def table(verdicts: Iterable[Verdict], title: str = "proof") -> RenderableType:
    """Returns a row for each claim, and below them the first violations of those that fail."""
    verdicts = tuple(verdicts)
    rows = Table(title=title, title_justify="left", expand=False)
    rows.add_column("claim")
    rows.add_column("figures")
    rows.add_column("", no_wrap=True)
    for verdict in verdicts:
        colour, word = ("green", "OK") if verdict.holds else ("red", "FAILED")
        rows.add_row(verdict.claim, verdict.figures, Text(word, style=f"bold {colour}"))
    return Group(rows, *(_violations(verdict) for verdict in verdicts if not verdict.holds))


def _violations(verdict: Verdict) -> Text:
    shown = [f"  {text}" for text in verdict.violations[:_VIOLATIONS_SHOWN]]
    hidden = len(verdict.violations) - len(shown)
    shown += [f"  and {hidden} more"] * bool(hidden)
    return Text("\n".join((f"{verdict.claim}: FAILED", *shown)))


def json_proof(verdicts: Iterable[Verdict]) -> str:
    """One JSON object: `proof`, a list of the verdicts, and whether all of them hold."""
    proof = [asdict(verdict) | {"holds": verdict.holds} for verdict in verdicts]
    return json.dumps({"proof": proof, "holds": all(verdict["holds"] for verdict in proof)})
