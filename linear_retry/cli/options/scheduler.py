"""The options of both schedulers: with a database, and on Spark."""

from typing import Annotated

import typer

from linear_retry.cli.options.values import topic_name

SCHEDULER_TOPIC = Annotated[
    str, typer.Option(metavar="TOPIC", callback=topic_name, help="The scheduler's own topic.")
]
ALLOW = Annotated[
    list[str],
    typer.Option(
        metavar="PATTERN",
        help="Topics to which it may send, such as 'orders.*'; repeat it for more. * stands "
        "for any characters.",
    ),
]
