"""No command writes dead letters to the topic that the scheduler reads."""

import pytest
from typer.testing import CliRunner

from linear_retry.cli import app


@pytest.mark.parametrize(
    ("command", "option", "more"),
    [("run", "--dead-letters", ("--allow", "*")), ("drain", "--to", ())],
)
def test_it_is_refused(command: str, option: str, more: tuple[str, ...]) -> None:
    """Before Spark starts, in one sentence: each letter used to be read as a record that cannot be
    sent, and to become the next letter."""
    where = ("--topic", "scheduled", "--checkpoint", "state", "--bootstrap", "127.0.0.1:1")
    result = CliRunner().invoke(
        app, ["spark", "scheduler", command, *where, option, "scheduled", *more]
    )
    said = (
        f"{option}: 'scheduled' is the topic that the scheduler reads; name another one for dead "
        "letters\n"
    )
    assert (2, said) == (result.exit_code, result.stderr)
