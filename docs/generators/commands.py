"""Describes the command line from the commands themselves."""

import re
from collections.abc import Iterator
from typing import Any

import typer.main

from docs.generators.markdown import cell, codes, table
from linear_retry.cli import app
from linear_retry.cli.output.exit_codes import MEANINGS

_NAME = "linear-retry"
_MARKUP = re.compile(r"([\\`*_<>\[\]])")
_TYPE = re.compile(r" <.*>$")
_EXAMPLE = re.compile(r"Examples?: ")


def exit_codes() -> str:
    """Returns every exit code and its meaning."""
    return table(("exit code", "meaning"), ((f"`{one}`", said) for one, said in MEANINGS.items()))


def commands() -> str:
    """Returns a section for each command: its help, arguments and options."""
    return "\n\n".join(
        part
        for name, command in _groups()
        for part in (f"## `{name}`", _text(command), *_described(name, command))
    )


def _groups() -> Iterator[tuple[str, Any]]:
    for name, command in _root().commands.items():
        yield f"{_NAME} {name}", command


def _root() -> Any:
    """Returns the root command. Typer uses its own click or the installed one, of other types."""
    return typer.main.get_command(app)


def _described(name: str, command: Any) -> Iterator[str]:
    if not hasattr(command, "commands"):
        yield from _parameters(name, command)
        return
    for each, inner in command.commands.items():
        yield from (f"### `{name} {each}`", _text(inner), *_described(f"{name} {each}", inner))


def _text(command: Any) -> str:
    """Returns the command's help, with its example as code."""
    return "\n\n".join(map(_paragraph, (command.help or "").strip().split("\n\n")))


def _paragraph(text: str) -> str:
    line = " ".join(text.split())
    if _EXAMPLE.match(line):
        return f"```sh\n{_EXAMPLE.sub('', line)}\n```"
    return _plain(line)


def _plain(text: str) -> str:
    return _MARKUP.sub(r"\\\1", text)


def _parameters(name: str, command: Any) -> Iterator[str]:
    context = command.context_class(command, info_name=name)
    for kind, head in (("argument", "argument"), ("option", "option")):
        records = [
            one.get_help_record(context)
            for one in command.params
            if one.param_type_name == kind and not one.hidden
        ]
        if records:
            rows = ((_names(names), _plain(cell(said))) for names, said in records)
            yield table((head, "meaning"), rows)


def _names(names: str) -> str:
    """Formats each spelling as code, without the type that Typer adds to arguments."""
    return codes(cell(_TYPE.sub("", names)).split(", "))
