"""`--help` reads well on a terminal of 80 columns."""

import pytest
from typer.testing import CliRunner

from linear_retry.cli import app


@pytest.mark.parametrize(
    "group", ["", "strategy", "topics", "dlq", "scheduler", "outbox", "circuits", "spark"]
)
def test_each_command_has_one_line(group: str) -> None:
    """What a command does fits on its line in the list of commands: nothing is cut."""
    output = CliRunner(env={"COLUMNS": "80"}).invoke(app, [*group.split(), "--help"]).output
    commands = output.split("Commands:")[1].split("\n\n")[0]
    assert commands.strip()
    assert [] == [line for line in commands.splitlines() if line.endswith("...")]


@pytest.mark.parametrize("command", ["plan", "create", "check"])
def test_an_example_can_be_copied(command: str) -> None:
    """`--strategy retry-topics` was broken at its hyphen, and what was copied was two words."""
    output = CliRunner(env={"COLUMNS": "80"}).invoke(app, ["topics", command, "--help"]).output
    example = output.split("Example: ")[1].split("\n\n")[0]
    assert " --strategy retry-topics " in example
    assert [] == [line for line in example.splitlines() if line.endswith("-")]
