"""Which letters does a condition choose, and what came of sending them? `spark replay`."""

from __future__ import annotations

import gc
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from typing import TYPE_CHECKING, Annotated, Any

import typer

from linear_retry.cli.dlq.replay_options import Sending
from linear_retry.cli.options.connection import Connection, with_option_groups
from linear_retry.cli.output.exit_codes import exit_on_error
from linear_retry.cli.spark.needing import needing_pyspark
from linear_retry.cli.spark.options import LAKE, MASTER

if TYPE_CHECKING:
    from linear_retry.cli.dlq.replay import Order
    from linear_retry.spark.replay import Chosen


@with_option_groups
def replay(
    lake: LAKE,
    where: Annotated[
        str,
        typer.Option(metavar="SQL", help="A condition on the columns of the table dead_letters."),
    ],
    connection: Connection,
    sending: Sending,
    master: MASTER = None,
) -> None:
    """Send open dead letters again that a SQL condition chooses, in their original order.

    Spark only says which: what is sent is read from the dead-letter topic, as by `dlq replay`, to
    the same places, each once, and is recorded there. Only says what it would do unless --yes is
    given. A newer replay, resolve, reopen or purge of the same topic ends an older one.

    Example: linear-retry spark replay --lake lake --bootstrap localhost:9092 --yes
    --where "reason = 'exhausted' AND exception_message LIKE '%503%'"

    Exit codes: 0, done, or nothing to do; 1, a dead letter cannot be sent as it is and stays open,
    or --check-newer has found something; 2, wrong usage, or the condition is none or chooses
    letters of several topics; 3, no broker answers, no permission, a topic is not there or
    cannot take a letter, the lake is empty or of another topic, or there is no Java or PySpark
    (nothing is sent then); 4, ended by a newer one; 130, Ctrl-C; 143, SIGTERM.
    """
    order = sending.order(as_json=connection.as_json)
    with exit_on_error(), needing_pyspark():
        config = connection.keys()
        with _chosen(lake, config, where, master) as these:
            _replay(these, lake, config, order)


@contextmanager
def _chosen(
    lake: str, config: Mapping[str, Any], where: str, master: str | None
) -> Iterator[Chosen]:
    from linear_retry.cli.output.progress import ProgressBar
    from linear_retry.spark import Lake
    from linear_retry.spark.replay import chosen
    from linear_retry.spark.session import session

    with ExitStack() as until_sent:
        # Spark has gone before anything is sent: its memory is free, and Ctrl-C is Python's again.
        with ProgressBar("choosing"), session(master) as spark:
            these = until_sent.enter_context(chosen(Lake(spark, lake.rstrip("/")), config, where))
        yield these


def _replay(these: Chosen, lake: str, config: Mapping[str, Any], order: Order) -> None:
    from linear_retry.cli.dlq.replay import print_outcome, replay_letters
    from linear_retry.dlq import DeadLetterTopic, Plan
    from linear_retry.spark.ingest.kafka_options import librdkafka_keys

    _tell(these, as_json=order.as_json)
    if these.topic is None:
        if not order.as_json:
            typer.echo(f"nothing to do: no letters in {lake} that match", err=True)
        with Plan("") as nothing:
            print_outcome(nothing, order, 0)
        return
    # Reading makes many small objects and no cycles, as for `dlq`.
    gc.set_threshold(100_000)
    with DeadLetterTopic(these.topic, librdkafka_keys(config)) as letters:
        replay_letters(letters, these.filter, order)


def _tell(these: Chosen, *, as_json: bool) -> None:
    from linear_retry.cli.dlq.resolve import plural
    from linear_retry.cli.output.rows import write_json

    if as_json:
        write_json([{"topic": these.topic, "chosen": these.letters, "gone": these.gone}])
    elif these.topic is not None:
        but = f", {these.gone} of which a retention or a purge has removed" if these.gone else ""
        typer.echo(f"{plural(these.letters)} of {these.topic} chosen{but}", err=True)
