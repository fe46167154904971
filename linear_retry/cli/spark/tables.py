"""Makes the episodes and the report from a lake: `spark episodes`, `spark report`."""

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

import typer

from linear_retry.cli.output.rows import plural, write_json
from linear_retry.spark import Lake, Reported, Tuned, update_episodes
from linear_retry.spark import report as report_on
from linear_retry.spark.reporting.report import check
from linear_retry.spark.session import session
from linear_retry.tuning.solver import Conditions


def episodes(lake: str, master: str | None, *, as_json: bool) -> None:
    """Makes the table, and prints a line or an object."""
    with session(master) as spark:
        kinds = update_episodes(Lake(spark, lake))
    if as_json:
        write_json([kinds])
    else:
        typer.echo(episodes_line(kinds))


def episodes_line(kinds: dict[str, int]) -> str:
    """How many there are of each kind."""
    parts = ", ".join(f"{number} {kind}" for kind, number in kinds.items() if number)
    rows = plural(sum(kinds.values()), "row")
    return f"episodes: {rows} ({parts})" if parts else f"episodes: {rows}"


@dataclass(frozen=True, slots=True)
class Page:
    """The page to write, if any, and what its proposals must do, as of `tune`."""

    to: Path | None
    keys: bool
    probe_cost_s: float
    conditions: Conditions

    def check(self) -> None:
        """Raises what `report` would raise after seconds: before Spark starts."""
        if self.to is not None:
            check(self.to)

    def write(self, lake: Lake, to: Path, proposals: Sequence[Tuned] | None = None) -> Reported:
        """Writes it; `proposals` are what `tune` found, if it has run."""
        return report_on(
            *(lake, to),
            keys=self.keys,
            probe_cost_s=self.probe_cost_s,
            cover=self.conditions.cover,
            proposals=proposals,
        )


def report(lake: str, page: Page, to: Path, master: str | None, *, as_json: bool) -> None:
    """Writes the page, and prints a line or an object."""
    page.check()
    with session(master) as spark:
        done = page.write(Lake(spark, lake), to)
    if as_json:
        write_json([asdict(done)])
    else:
        typer.echo(report_line(done))


def report_line(done: Reported) -> str:
    """Where the page is, and what it shows."""
    return (
        f"{done.page}: {_count(done.outages, 'outage')}, {_count(done.letters, 'dead letter')}, "
        f"{plural(done.advice, 'piece')} of advice; the tables are in {done.tables}"
    )


def _count(number: int | None, noun: str) -> str:
    return f"no table of {noun}s" if number is None else plural(number, noun)
