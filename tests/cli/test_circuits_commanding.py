"""Do `linear-retry circuits retry|give-up` refuse what cannot work, before anything is sent?"""

from __future__ import annotations

import pytest
from typer.testing import CliRunner

from linear_retry.cli import app
from linear_retry.testing import EmbeddedKafka

_PLACE = "orders[0]@812"


def _run(command: str, *arguments: str, says: str = "") -> tuple[int, str]:
    given = ["circuits", command, "--group", "billing", *arguments]
    result = CliRunner().invoke(app, given, input=says)
    return result.exit_code, " ".join(result.output.replace("│", " ").split())


@pytest.mark.parametrize(
    ("arguments", "reason"),
    [
        (["orders"], "is not TOPIC[PARTITION]@OFFSET, such as 'orders[3]@812'"),
        (["orders[0]"], "is not TOPIC[PARTITION]@OFFSET"),
        (["orders[-1]@812"], "is not TOPIC[PARTITION]@OFFSET"),
        (["orders[0]@812x"], "is not TOPIC[PARTITION]@OFFSET"),
        ([_PLACE], "no broker is named"),
        ([_PLACE, "--bootstrap", "localhost"], "'localhost' is not HOST:PORT"),
        ([_PLACE, "--bootstrap", "localhost:9092", "--control", ""], "the topic's name is empty"),
        ([_PLACE, "--bootstrap", "localhost:9092", "--by", "\x1b[2J"], "by is '\\x1b[2J'"),
        (
            [_PLACE, "--bootstrap", "localhost:9092", "--timeout", "0"],
            "for '--timeout'",
        ),
    ],
)
@pytest.mark.parametrize("command", ["retry", "give-up"])
def test_wrong_usage(command: str, arguments: list[str], reason: str) -> None:
    """What is wrong, and how it is written; exit code 2."""
    code, said = _run(command, *arguments, says="y\n")
    assert (2, True) == (code, reason in said), said


@pytest.mark.parametrize("says", ["n\n", ""])
def test_whoever_says_no_gives_nothing_up(says: str) -> None:
    """Nor does whoever is not there to say yes: no broker is asked for anything."""
    code, said = _run("give-up", _PLACE, "--bootstrap", "127.0.0.1:9", says=says)
    assert 1 == code
    assert f'Send {_PLACE}, held by group "billing", to the dead letters? [y/N]:' in said


def test_a_missing_control_topic_is_said() -> None:
    """Exit code 3; it is not created."""
    with EmbeddedKafka() as kafka:
        kafka.create_topic("orders")
        code, said = _run("retry", _PLACE, "--bootstrap", kafka.bootstrap)
    assert (3, True) == (code, "there is no topic 'linear-retry.control'" in said)
