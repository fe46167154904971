"""Code, help and docs agree on how a command ends."""

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import pytest
import typer
from typer.core import TyperGroup
from typer.testing import CliRunner

import linear_retry.cli
from linear_retry.cli import app
from linear_retry.cli.output import exit_codes
from linear_retry.cli.output.exit_codes import MEANINGS
from tests.docs.markdown import page, table

_CLI = Path(linear_retry.cli.__file__).parent
_CODES = {str(code): meaning for code, meaning in MEANINGS.items()}


def _commands(group: TyperGroup, name: str = "") -> Iterator[tuple[str, str]]:
    for each, command in group.commands.items():
        whole = f"{name} {each}".strip()
        if isinstance(command, TyperGroup):
            yield from _commands(command, whole)
        else:
            yield whole, " ".join((command.help or "").split())


_APP = typer.main.get_command(app)
assert isinstance(_APP, TyperGroup)
_ALL = dict(_commands(_APP))


def _listed(text: str) -> list[str]:
    _, _, meaning = text.partition("Exit codes:")
    return re.findall(r"(?:^|[;.]) (?:With --lake also )?(\d+),", meaning)


@pytest.mark.parametrize("name", _ALL)
def test_the_help_of_a_command_has_an_example_and_codes_of_the_one_set(name: str) -> None:
    """A line that can be copied; codes that mean something of this command's own ascend."""
    assert f"Example: linear-retry {name}" in _ALL[name]
    codes = _listed(_ALL[name])
    assert codes == sorted(set(codes), key=int)
    assert set(codes) <= set(_CODES)


def test_a_code_has_one_meaning() -> None:
    """The exit code 4 meant fenced in one command, and pending in another."""
    assert len(_CODES) == len(set(_CODES.values()))
    for meaning in _ALL.values():
        assert (" 4, " in meaning) == (" 4, ended by a newer " in meaning)
        assert (" 6, " in meaning) == (" 6, accepted, but not " in meaning)


def test_the_help_of_all_lists_each_code() -> None:
    """`linear-retry --help` says what the codes of its commands mean."""
    result = CliRunner().invoke(app, ["--help"])
    _, _, reported = " ".join(result.stdout.split()).partition("Exit codes: ")
    assert "; ".join(f"{code}, {meaning}" for code, meaning in _CODES.items()) + "." == reported


def test_the_page_lists_codes_of_the_one_set() -> None:
    """docs/dead-letters/replay.md has those of its commands."""
    rows = table(page("docs/dead-letters/replay.md"), "code")
    assert {code for row in rows for code in row[0].split(", ")} <= set(_CODES)


def test_the_answers_of_a_consumer_end_with_codes_of_the_one_set() -> None:
    """What docs/operations/held-messages.md lists."""
    listed = {row[2] for row in table(page("docs/operations/held-messages.md"), "answer")}
    assert {"0", "1", "3", "6"} <= listed <= set(_CODES)


@pytest.mark.parametrize("path", sorted(_CLI.rglob("*.py")), ids=lambda path: path.name)
def test_no_module_has_codes_of_its_own(path: Path) -> None:
    """A command ends with a name of `exit_codes`, never with a number."""
    calls = [node for node in ast.walk(ast.parse(path.read_text())) if isinstance(node, ast.Call)]
    ends = [node for node in calls if ast.unparse(node.func) in ("fail", "typer.Exit")]
    numbers = [
        part.value
        for node in ends
        for argument in node.args
        for part in ast.walk(argument)
        if isinstance(part, ast.Constant) and isinstance(part.value, int)
    ]
    assert [] == numbers


def test_each_name_is_a_code() -> None:
    """What a command may end with has a meaning."""
    values = [
        value
        for name, value in vars(exit_codes).items()
        if name.isupper() and name[0] != "_" and value != MEANINGS
    ]
    assert list(MEANINGS) == values
