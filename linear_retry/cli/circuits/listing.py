"""Prints the open circuits, as a table that `watch` shows too, and the members' answers."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict
from typing import Any

import typer
from rich.console import Console
from rich.table import Table
from rich.text import Text

from linear_retry.cli.circuits import formats
from linear_retry.cli.output.exit_codes import DONE, NEGATIVE, PENDING, UNAVAILABLE, fail
from linear_retry.cli.output.progress import ProgressBar
from linear_retry.cli.output.rows import TabbedRows, is_terminal, plural, write_json
from linear_retry.journal.group_state import GroupStates, OpenCircuit
from linear_retry.journal.reader import JournalTail
from linear_retry.journal.standing import Liveness, Standing, Standings
from linear_retry.monitoring.control import CommandSender, SentCommand, nobody, sentence
from linear_retry.records.control import Answer, AnswerName, Command
from linear_retry.records.durations import span_text
from linear_retry.records.printable import in_one_line, moment, one_line
from linear_retry.retry.clock import now_ms

STYLES = {"open": "red", "half-open": "yellow"}
LIVENESS_STYLES: Mapping[Liveness, str] = {
    "live": "green",
    "no-member": "red",
    "past": "dim",
    "unknown": "yellow",
}
_YES: tuple[AnswerName, ...] = (
    *("recovered", "returned", "no-message", "lifted", "none-open"),
    *("paused", "ended", "reloaded", "unchanged"),
)
_NOT_YET: tuple[AnswerName, ...] = ("heard", "pending", "begun")
_WORST_FIRST = (UNAVAILABLE, PENDING, NEGATIVE, DONE)


def list_circuits(
    journal: JournalTail, standings: Standings, group: str | None, *, as_json: bool
) -> None:
    """Prints the open circuits of one group, or of all."""
    states = GroupStates()
    with ProgressBar(f"reading {journal.topic}") as bar:
        for found in journal.backlog(bar):
            states.take(found)
    groups = states.groups if group is None else (group,)
    views = [states.view(name) for name in groups]
    for trouble in formats.troubles(states, views):
        typer.echo(trouble, err=True)
    if group is not None and group not in states.groups:
        fail(formats.no_such_group(group, states, journal.topic), NEGATIVE)
    standings.refresh()
    standing_of = {view.group: standings.of(view) for view in views}
    for name, standing in standing_of.items():
        if (text := formats.standing_text(name, standing)) is not None:
            typer.echo(text, err=True)
    rows = [(view.group, circuit) for view in views for circuit in view.circuits]
    _print(rows, standing_of, as_json=as_json)
    if not groups:
        typer.echo(f"no group has entries in {journal.topic} in this time", err=True)
    elif not rows:
        where = ", ".join(map(one_line, groups))
        typer.echo(f"no circuit is open in {where}, according to {journal.topic}", err=True)


def _print(
    rows: Sequence[tuple[str, OpenCircuit]], found: Mapping[str, Standing], *, as_json: bool
) -> None:
    at_ms = now_ms()
    if as_json:
        write_json(formats.circuit_json(*row, at_ms, found[row[0]].liveness) for row in rows)
    elif not rows:
        return
    elif is_terminal():
        from linear_retry.cli.circuits.listing import print_circuits

        print_circuits(rows, at_ms)
    else:
        TabbedRows(formats.HEAD).write(
            formats.cells(*row, at_ms, found[row[0]].liveness) for row in rows
        )


def print_circuits(rows: Sequence[tuple[str, OpenCircuit]], now_ms: int) -> None:
    """Prints circuits, group by group."""
    console = Console(highlight=False)
    for group in dict.fromkeys(name for name, _ in rows):
        console.print(Text(in_one_line(group), "bold"))
        console.print(circuit_table((one for name, one in rows if name == group), now_ms))


def drawn(standing: Standing) -> Text:
    """Shows what Kafka says of a group."""
    return Text(str(standing), LIVENESS_STYLES[standing.liveness])


def circuit_table(circuits: Iterable[OpenCircuit], now_ms: int) -> Table:
    """Shows each circuit's state, remaining wait and message; below that, `retry_at` and the error.

    On narrow terminals, names are folded and errors truncated.
    """
    table = Table.grid(padding=(0, 2, 0, 0), expand=True)
    table.add_column(no_wrap=True, width=len("half-open"))
    table.add_column(no_wrap=True, width=len("in 59m59s"))
    table.add_column(overflow="fold", ratio=1)
    for one in circuits:
        state = one.state(now_ms)
        table.add_row(
            Text(state, STYLES[state]), Text(_left(one, now_ms), "bold"), _what(one, now_ms)
        )
        error = Text(one_line(one.error) or "-", "dim", no_wrap=True, overflow="ellipsis")
        table.add_row("", Text("" if one.due_ms is None else clock(one.due_ms), "dim"), error)
    return table


def clock(at_ms: int) -> str:
    """Formats the time of day, as the remaining time is beside it."""
    whole = moment(at_ms)
    return whole[11:] if whole.endswith("Z") else whole


def _left(circuit: OpenCircuit, now_ms: int) -> str:
    if circuit.due_ms is None:
        return "blocked"
    left_ms = circuit.due_ms - now_ms
    # Rounded up: "in 0s" would mean that it is due.
    return f"in {span_text(left_ms + 999)}" if left_ms > 0 else f"for {span_text(-left_ms)}"


def _what(circuit: OpenCircuit, now_ms: int) -> Text:
    message = "no message" if circuit.held is None else in_one_line(str(circuit.held))
    text = Text(message, "bold")
    for fact in _facts(circuit, now_ms):
        text.append(f", {fact}", "not bold")
    return text


def _facts(circuit: OpenCircuit, now_ms: int) -> Iterable[str]:
    yield in_one_line(circuit.member)
    if circuit.process is not None:
        yield in_one_line(str(circuit.process))
    if circuit.failures is not None:
        yield plural(circuit.failures, "failure")
    if circuit.waits_for == "letter":
        yield f"letter not sent ({circuit.sends} times)"
    if circuit.waits_for == "limit":
        yield "held by the limit"
    if circuit.waits_for == "operator":
        yield "waits for an operator"
    if circuit.waits_for == "pause":
        yield "paused by an operator"
    if circuit.waits_for == "group":
        yield "held for its group"
    if circuit.scope.topic is not None:
        verb = "pauses" if circuit.scope.key is None else "stops"
        yield f"{verb} {in_one_line(str(circuit.scope))} only"
    if circuit.behind:
        yield f"{plural(circuit.behind, 'message waits', 'messages wait')} behind it"
    yield f"open for {span_text(now_ms - circuit.since_ms)}"


def write(sender: CommandSender, sent: Sequence[SentCommand], *, as_json: bool) -> int:
    """Prints the answers, negative ones on stderr; returns the worst exit code."""
    codes = [
        _write(sender, one.command, answer, as_json=as_json)
        for one in sent
        for answer in (one.answers() or (None,))
    ]
    return min(codes, key=_WORST_FIRST.index)


def _write(sender: CommandSender, command: Command, answer: Answer | None, *, as_json: bool) -> int:
    code = UNAVAILABLE if answer is None else code_of(command, answer, waits=sender.waits)
    if as_json:
        fields = {"member": None, "answer": None} if answer is None else _json(answer)
        write_json([{**asdict(command), **fields, "at_ms": command.at_ms}])
    elif answer is None:
        typer.echo(nobody(command, sender.topic, sender.timeout_s), err=True)
    else:
        typer.echo(sentence(command, answer), err=bool(code))
    return code


def _json(answer: Answer) -> dict[str, Any]:
    """Returns the answer as JSON, without coordinates that only the command has."""
    return {name: value for name, value in asdict(answer).items() if value is not None}


def code_of(command: Command, answer: Answer, *, waits: bool) -> int:
    """Returns the exit code for an answer."""
    if answer.answer in _YES or (answer.answer == "begun" and not waits):
        return DONE
    if answer.answer == "dead-lettered" and command.command == "give-up":
        return DONE
    return PENDING if answer.answer in _NOT_YET else NEGATIVE
