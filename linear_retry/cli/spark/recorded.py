"""Which recorded outages are meant, and with what is a strategy compared in them?"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import typer

from linear_retry.cli.spark.options import MASTER


@dataclass(frozen=True, slots=True, kw_only=True)
class Recorded:
    """What commands that learn from the table `outages` have in common."""

    group: Annotated[
        str | None, typer.Option(metavar="GROUP", help="Outages of this consumer group only.")
    ] = None
    present: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE", help="The strategy that is used now; else what the journal has of it."
        ),
    ] = None
    seed: Annotated[
        int, typer.Option(metavar="N", min=0, help="Of the dice that the intervals are drawn with.")
    ] = 1
    master: MASTER = None
