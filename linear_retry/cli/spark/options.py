"""What do the commands of Spark have in common?"""

from __future__ import annotations

from typing import Annotated

import typer

LAKE = Annotated[
    str, typer.Option(metavar="DIR", help="Where the tables are: a directory, or a URI.")
]
MASTER = Annotated[
    str | None,
    typer.Option(metavar="URL", help="Spark's master; local[*] unless it says otherwise."),
]
