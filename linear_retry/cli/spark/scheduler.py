"""The commands `linear-retry spark scheduler`."""

from threading import Event
from typing import Annotated

import typer

from linear_retry.cli.options.connection import Connection, with_option_groups
from linear_retry.cli.options.values import ALLOW, SCHEDULER_TOPIC, topic_name
from linear_retry.cli.output.exit_codes import exit_on_error
from linear_retry.cli.spark.options import MASTER, require_pyspark

app = typer.Typer(
    help="Keep messages in Spark's state, and send each when it is due.",
    no_args_is_help=True,
    rich_markup_mode=None,
)
_YES = Annotated[
    bool, typer.Option("--yes", help="Do it; without --yes, only say what would be done.")
]
_CHECKPOINT = Annotated[
    str, typer.Option(metavar="DIR", help="The directory or URI of the query's checkpoint.")
]


@app.command()
@with_option_groups
def run(
    topic: SCHEDULER_TOPIC,
    checkpoint: _CHECKPOINT,
    allow: ALLOW,
    connection: Connection,
    dead_letters: Annotated[
        str | None,
        typer.Option(
            metavar="TOPIC",
            callback=topic_name,
            help="What cannot be sent goes there. The default is TOPIC.dlq.",
        ),
    ] = None,
    partitions: Annotated[
        int | None,
        typer.Option(
            metavar="N",
            min=1,
            max=1000,
            help="How many partitions the state has; fixed at the first run. Use no more than "
            "there are cores. The default is Spark's default parallelism.",
        ),
    ] = None,
    master: MASTER = None,
) -> None:
    """Run the scheduler on Spark until SIGTERM or Ctrl-C.

    It holds what is in TOPIC in Spark's state, and sends each message to the topic in its header
    retry-destination at the time in retry-at-ms. What cannot be read, is not allowed or is refused
    goes to the dead-letter topic with the reason. It continues where its checkpoint ends; at the
    first run, at the beginning of TOPIC.

    Example: linear-retry spark scheduler run --topic billing.scheduled --checkpoint state --allow
    'orders*' --bootstrap localhost:9092

    Exit codes: 2, a value is wrong, or the checkpoint is another topic's or was drained; 3, a topic
    is missing or has lost records, or Spark cannot start; 4, ended by a newer one on the
    checkpoint.
    """
    with exit_on_error(), require_pyspark():
        config = connection.keys()
        from linear_retry.cli.output.log import log_to_stderr
        from linear_retry.spark.scheduler.query import SchedulerOnSpark
        from linear_retry.spark.scheduler.service import run as run_scheduler
        from linear_retry.spark.session import session

        scheduler = SchedulerOnSpark(
            config=config,
            topic=topic,
            checkpoint=checkpoint,
            allow=tuple(allow),
            dead_letters=dead_letters,
            partitions=partitions,
        )
        log_to_stderr(as_json=connection.as_json)
        stop = Event()
        with session(master, stop=stop) as spark:
            run_scheduler(spark, scheduler, stop=stop)


@app.command()
@with_option_groups
def stats(
    checkpoint: _CHECKPOINT,
    master: MASTER = None,
    as_json: Annotated[
        bool, typer.Option("--json", help="One JSON object for each destination, on a line.")
    ] = False,
) -> None:
    """Count the waiting messages of each destination, and how many of them are due.

    As of the last micro-batch, whether the scheduler runs or not. Times are UTC.

    Example: linear-retry spark scheduler stats --checkpoint state
    """
    with exit_on_error(), require_pyspark():
        from linear_retry.cli.spark.held import show_stats

        show_stats(checkpoint, master, as_json=as_json)


@app.command()
@with_option_groups
def drain(
    topic: SCHEDULER_TOPIC,
    checkpoint: _CHECKPOINT,
    to: Annotated[
        str, typer.Option(metavar="TOPIC", callback=topic_name, help="The dead-letter topic.")
    ],
    connection: Connection,
    leave_unread: Annotated[
        bool,
        typer.Option(
            "--leave-unread",
            help="Drain although records of TOPIC were not read: they stay there, and are counted.",
        ),
    ] = False,
    yes: _YES = False,
    master: MASTER = None,
) -> None:
    """Send all that waits to a dead-letter topic.

    Use it to retire a scheduler. Let it read TOPIC to its end, and stop it; its checkpoint cannot
    be used again. `linear-retry dlq replay`
    sends the letters to where the messages were to go. Dry run unless --yes.

    Example: linear-retry spark scheduler drain --topic billing.scheduled --checkpoint state --to
    orders.dlq --bootstrap localhost:9092 --yes

    Exit codes: 2, the scheduler runs, records of TOPIC were not read, or the checkpoint is another
    topic's; 3, a topic does not exist.
    """
    with exit_on_error(), require_pyspark():
        from linear_retry.cli.spark.held import drain as run_drain

        places = (checkpoint, to)
        run_drain(connection, topic, places, master, leaves_unread=leave_unread, yes=yes)


@app.command()
@with_option_groups
def resize(
    topic: SCHEDULER_TOPIC,
    checkpoint: _CHECKPOINT,
    to: Annotated[
        str, typer.Option(metavar="DIR", help="The directory or URI of the new checkpoint.")
    ],
    partitions: Annotated[
        int, typer.Option(metavar="N", min=1, max=1000, help="Its state's partitions.")
    ],
    connection: Connection,
    yes: _YES = False,
    master: MASTER = None,
) -> None:
    """Move all that waits to a new checkpoint with another number of partitions.

    Stop the scheduler first; run it with the new checkpoint afterwards. What waits is written to
    TOPIC again, from where the new one reads it. If it is interrupted, run it again; some messages
    are then sent twice, with the same ids. Dry run unless --yes.

    Example: linear-retry spark scheduler resize --topic billing.scheduled --checkpoint state --to
    state-8 --partitions 8 --bootstrap localhost:9092 --yes

    Exit codes: 2, the scheduler runs, the checkpoint is another topic's or the new one is in use;
    3, the topic does not exist.
    """
    with exit_on_error(), require_pyspark():
        from linear_retry.cli.spark.held import resize as run_resize

        run_resize(connection, topic, (checkpoint, to, partitions), master, yes=yes)
