"""Which strategy do the recorded outages call for? `spark tune`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from linear_retry.cli.options.connection import with_option_groups
from linear_retry.cli.output.exit_codes import exit_on_error
from linear_retry.cli.spark.needing import needing_pyspark
from linear_retry.cli.spark.options import LAKE
from linear_retry.cli.spark.recorded import Recorded
from linear_retry.cli.spark.target import Target
from linear_retry.cli.strategy.outages import length_ms
from linear_retry.errors import UsageError
from linear_retry.tuning.solver import Conditions


@with_option_groups
def tune(
    lake: LAKE,
    probe_cost: Annotated[
        str,
        typer.Option(
            metavar="TIME",
            help="An attempt is as bad as waiting so long after an outage: 5, or 500ms.",
        ),
    ],
    recorded: Recorded,
    cover: Annotated[
        float,
        typer.Option(
            metavar="SHARE", min=0, max=1, help="So many outages end before the strategy does."
        ),
    ] = 0.999,
    to: Annotated[
        Path | None,
        typer.Option(metavar="FILE", help="Write the proposed strategy here: one group's."),
    ] = None,
    force: Annotated[
        bool, typer.Option("--force", help="Overwrite the file that is there already.")
    ] = False,
    most: Annotated[
        int, typer.Option(metavar="N", min=1, max=1000, help="At most so many delays.")
    ] = 50,
    shortest: Annotated[
        str, typer.Option(metavar="TIME", help="No delay is shorter: 1s, or 500ms.")
    ] = "1s",
    as_json: Annotated[
        bool, typer.Option("--json", help="One JSON object for each group, each on a line.")
    ] = False,
) -> None:
    """Propose the delays that cost least in such outages.

    Made from the first two thirds of a group's rows in the table `outages`, and compared with its
    present delays on the others. Without --group each group is a row; --to then needs a lake of one
    group. docs/tuning.md says what a cost is, and when not to trust it.

    Example: linear-retry spark tune --lake lake --group billing --probe-cost 5 --cover 0.99
    --to strategies/billing.json

    Exit codes: 0, proposed; 1, the file of --present is not right; 2, wrong usage; 3, there is no
    table of outages, FILE cannot be written, or there is no Java or PySpark; 5, there are too
    few outages to propose anything, and nothing is written; 130, Ctrl-C; 143, SIGTERM.
    """
    cost_ms = length_ms(probe_cost, "--probe-cost")
    shortest_ms = length_ms(shortest, "--shortest")
    with exit_on_error(), needing_pyspark():
        from linear_retry.cli.spark.tuned import tune as run

        conditions = _conditions(cover, most, shortest_ms)
        run(lake, cost_ms, conditions, recorded, Target(to, force), as_json=as_json)


def _conditions(cover: float, most: int, shortest_ms: int) -> Conditions:
    try:
        return Conditions(cover, most, shortest_ms)
    except UsageError as error:
        raise typer.BadParameter(str(error)) from error
