"""Prints the members' answers to commands."""

from collections.abc import Sequence
from dataclasses import asdict
from typing import Any

import typer

from linear_retry.cli.output.exit_codes import DONE, NEGATIVE, PENDING, UNAVAILABLE
from linear_retry.cli.output.rows import write_json
from linear_retry.monitoring.control import CommandSender, SentCommand, nobody, sentence
from linear_retry.records.control import Answer, AnswerName, Command

_YES: tuple[AnswerName, ...] = ("recovered", "returned", "no-message", "lifted", "none-open")
_NOT_YET: tuple[AnswerName, ...] = ("heard", "pending", "begun")
_WORST_FIRST = (UNAVAILABLE, PENDING, NEGATIVE, DONE)


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
