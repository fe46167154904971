"""The commands of `dlq` that change something."""

import os
from typing import Annotated

import typer

from linear_retry.cli.dlq.options import (
    TOPIC,
    WHY,
    YES,
    Connection,
    LetterState,
    ReplayOptions,
    Selection,
)
from linear_retry.cli.options.connection import with_option_groups
from linear_retry.cli.options.values import BY
from linear_retry.cli.output.exit_codes import exit_on_error
from linear_retry.strategy.delays import shown


@with_option_groups
def replay(
    topic: TOPIC, selection: Selection, connection: Connection, options: ReplayOptions
) -> None:
    """Send open dead letters back, in their original order.

    Each goes to the topic and partition it came from, in the order of the original offsets, exactly
    once: if it is interrupted, run it again. Dry run unless --yes. A newer replay, resolve, reopen
    or purge of the same topic ends an older one. Then it says what became of them: handled, not
    read yet, or dead again; it waits for that while a consumer reads them (--wait).

    Example: linear-retry dlq replay orders.dlq --bootstrap localhost:9092 --exception Timeout --yes

    Exit codes: 1, a dead letter cannot be sent as it is and stays open, or came back as a new one,
    --check-newer has found something, or no letter has the --id, or one of --ids; 4, ended by a
    newer command.
    """
    with exit_on_error(), connection.topic(topic) as letters:
        from linear_retry.cli.dlq.replay import replay_letters

        selected = _only_open(selection).filter()
        replay_letters(letters, selected, options, as_json=connection.as_json)


@with_option_groups
def rehearse(
    topic: TOPIC,
    selection: Selection,
    connection: Connection,
    consumer: Annotated[
        str,
        typer.Option(
            metavar="MODULE:FUNCTION",
            help="A function of your program, as seen from this directory. It returns your "
            "LinearConsumer, which is not started, and its handler.",
        ),
    ],
    batches: Annotated[
        bool, typer.Option("--batches", help="The handler takes lists: it gets one at a time.")
    ] = False,
    then_replay: Annotated[
        bool,
        typer.Option("--then-replay", help="Then replay those that would succeed, in order."),
    ] = False,
    yes: YES = False,
    by: BY = None,
    why: WHY = "",
) -> None:
    """Try open dead letters on a corrected handler.

    Hands them to it in the order of a replay, in a process of its own; nothing is sent to Kafka,
    and nothing committed. What the handler itself does is real: it writes and calls as it always
    does. So this is a dry run, which says how many letters it is about, unless --yes. For each
    letter it says whether it would succeed, fails as before, by the type of the exception, or fails
    otherwise. --then-replay leaves out those that would overtake one of their key that fails.

    Example: linear-retry dlq rehearse orders.dlq --bootstrap localhost:9092 --consumer billing:make
    --exception Timeout --yes

    Exit codes: 1, a letter fails, or no letter has the --id; 2, the program cannot be used.
    """
    if then_replay and not yes:
        raise typer.BadParameter(
            "it sends what succeeds: write --yes too", param_hint="--then-replay"
        )
    with exit_on_error(), connection.topic(topic) as letters:
        from linear_retry.cli.dlq.rehearsal import rehearse_letters
        from linear_retry.dlq.rehearsal.handling import Program

        options = ReplayOptions(yes=True, by=by, why=why) if then_replay else None
        program = Program(consumer, os.getcwd(), batches)
        selected = _only_open(selection).filter()
        rehearse_letters(letters, selected, program, options, yes=yes, as_json=connection.as_json)


@with_option_groups
def resolve(
    topic: TOPIC,
    selection: Selection,
    connection: Connection,
    yes: YES = False,
    by: BY = None,
    why: WHY = "",
) -> None:
    """Mark open dead letters as resolved, without sending them.

    Dry run unless --yes; `dlq list` with the same options shows the letters.

    Example: linear-retry dlq resolve orders.dlq --bootstrap localhost:9092 --reason permanent
    --why "refunded by hand" --yes

    Exit codes: 1, no letter has the --id; 4, ended by a newer replay, resolve, reopen or purge.
    """
    with exit_on_error(), connection.topic(topic) as letters:
        from linear_retry.cli.dlq.resolve import resolve_letters

        selected = _only_open(selection).filter()
        resolve_letters(letters, selected, by=by, why=why, yes=yes, as_json=connection.as_json)


@with_option_groups
def reopen(topic: TOPIC, selection: Selection, connection: Connection, yes: YES = False) -> None:
    """Reopen replayed or resolved letters.

    Dry run unless --yes. The next replay sends them, even if an earlier one did.

    Example: linear-retry dlq reopen orders.dlq --bootstrap localhost:9092 --state resolved --yes

    Exit codes: 1, no letter has the --id; 4, ended by a newer replay, resolve, reopen or purge.
    """
    if LetterState.OPEN in (selection.state or ()):
        raise typer.BadParameter(
            "an open letter cannot be opened again; write replayed or resolved",
            param_hint="--state",
        )
    with exit_on_error(), connection.topic(topic) as letters:
        from linear_retry.cli.dlq.resolve import reopen_letters

        reopen_letters(letters, selection.filter(), yes=yes, as_json=connection.as_json)


@with_option_groups
def purge(
    topic: TOPIC,
    connection: Connection,
    yes: YES = False,
    all_of: Annotated[
        str | None,
        typer.Option(
            "--all",
            metavar="TOPIC",
            help="Delete everything, open letters included. Repeat the topic's name.",
        ),
    ] = None,
    unknown_letters: Annotated[
        str | None,
        typer.Option(
            metavar="TOPIC",
            help="The topic has another system's dead letters, without headers that are known "
            "here. Repeat its name.",
        ),
    ] = None,
) -> None:
    """Delete replayed and resolved dead letters.

    Their resolutions are deleted too. Kafka deletes from the beginning of a partition, so
    everything before its first open letter goes. A topic without a dead letter is refused, unless
    its name ends in .dlq or -dlq, or --unknown-letters names it too. Dry run unless --yes. This
    cannot be undone.

    Example: linear-retry dlq purge orders.dlq --bootstrap localhost:9092 --yes

    Exit codes: 4, ended by a newer replay, resolve, reopen or purge.
    """
    for option, named, means in (
        ("--all", all_of, "to delete all of it"),
        ("--unknown-letters", unknown_letters, "if its records are dead letters"),
    ):
        if named is not None and named != topic:
            raise typer.BadParameter(
                f"{shown(named)} is not {shown(topic)}; {means}, write that name again",
                param_hint=option,
            )
    with exit_on_error(), connection.topic(topic) as letters:
        from linear_retry.cli.dlq.resolve import purge_letters

        purge_letters(
            letters,
            everything=all_of is not None,
            unknown_letters=unknown_letters is not None,
            yes=yes,
            as_json=connection.as_json,
        )


def _only_open(selection: Selection) -> Selection:
    if selection.state and selection.state != [LetterState.OPEN]:
        raise typer.BadParameter(
            "this is for open letters only; `dlq reopen` reopens a replayed or resolved one",
            param_hint="--state",
        )
    return selection
