"""The commands `linear-retry topics`, which import their implementation when called."""

from typing import Annotated

import typer

from linear_retry.cli.options.connection import Connection, with_option_groups
from linear_retry.cli.options.values import topic_name
from linear_retry.cli.output.exit_codes import exit_on_error
from linear_retry.cli.topics.options import AclOptions, SetupOptions

app = typer.Typer(
    help="Plan, create and check the topics that a consumer needs.",
    no_args_is_help=True,
    rich_markup_mode=None,
)


@app.command()
@with_option_groups
def plan(options: SetupOptions, connection: Connection, acls: AclOptions) -> None:
    """Show every topic that a consumer needs, and its ACLs.

    Needed are one retry topic for each distinct delay of the strategy, or the scheduler's topic;
    dead letters, resolutions, journal and control topic. They have as many partitions as SOURCE;
    retry topics and the scheduler's keep records for two weeks, or a week longer than their delay;
    retry topics are sorted by the broker's clock. Permissions are those of both consumer groups:
    GROUP, and GROUP.retry for the retry line, or TOPIC.scheduler for the scheduler, which may send
    to SOURCE. Nothing is changed.

    Example: linear-retry topics plan orders --strategy retry-topics --group billing --bootstrap
    localhost:9092

    Exit codes: 3, SOURCE does not exist.
    """
    with exit_on_error():
        setup, config = options.setup(), connection.keys()
        from linear_retry.cli.topics.plan import print_plan

        print_plan(setup, config, options.replication, acls, as_json=connection.as_json)


@app.command()
@with_option_groups
def create(options: SetupOptions, connection: Connection) -> None:
    """Create the topics that are missing.

    They are those of `topics plan`, which shows them first. A topic that exists is left as it is,
    also if somebody else creates it meanwhile. If one cannot be created, the others still are; run
    it again later.

    Example: linear-retry topics create orders --strategy retry-topics --group billing --bootstrap
    localhost:9092

    Exit codes: 0, all of them exist; 3, SOURCE does not exist, or a topic cannot be created.
    """
    with exit_on_error():
        setup, config = options.setup(), connection.keys()
        from linear_retry.cli.topics.plan import create_topics

        create_topics(setup, config, options.replication, as_json=connection.as_json)


@app.command()
@with_option_groups
def check(options: SetupOptions, connection: Connection) -> None:
    """Check the topics that exist, and report every problem.

    An error is that a topic is missing, has too few partitions, removes records before they are
    due, or is sorted by the clocks of their writers; warnings are about what is only risky. Retry
    topics of the prefix that the strategy does not use are reported, with the number of records
    that have not been read. Nothing is changed.

    Example: linear-retry topics check orders --strategy retry-topics --group billing --bootstrap
    localhost:9092

    Exit codes: 1, at least one error; 3, SOURCE does not exist.
    """
    with exit_on_error():
        setup, config = options.setup(), connection.keys()
        from linear_retry.cli.topics.plan import check_topics

        check_topics(setup, config, options.replication, as_json=connection.as_json)


@app.command()
@with_option_groups
def status(
    prefix: Annotated[
        str,
        typer.Argument(
            metavar="PREFIX",
            callback=topic_name,
            help="The prefix of RetryTopics, or the topic of RetryTopics.single.",
        ),
    ],
    group: Annotated[
        str, typer.Option(metavar="GROUP", help="The consumer group of the live line.")
    ],
    connection: Connection,
) -> None:
    """Show how many messages are out in retry topics, and until when.

    A message is out from when it is sent to a retry topic until the retry line has handled it, sent
    it on or dead-lettered it: what is behind the committed offsets of GROUP.retry is read and
    counted. "due" are those whose delay is over: they are being handled, or the retry line cannot
    keep up, waits for a dependency or does not run. Nothing is changed.

    Example: linear-retry topics status orders.billing.retry --group billing --bootstrap
    localhost:9092

    Exit codes: 3, there is no such retry topic.
    """
    with exit_on_error():
        config = connection.keys()
        from linear_retry.cli.topics.status import show_status

        show_status(prefix, group, config, as_json=connection.as_json)
