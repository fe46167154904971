"""The commands of `circuits` refuse what cannot work, and report what came of the rest."""

from collections.abc import Iterator
from pathlib import Path
from typing import TypeAlias

import pytest
from typer.testing import CliRunner

from linear_retry import LinearConsumer, Scope, Strategy, StrategyFile
from linear_retry.cli import app
from linear_retry.kafka import Message
from linear_retry.testing import EmbeddedKafka
from tests.kafka_operations import wait_until
from tests.living import broker_of_orders, living, patient_consumer

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
    code, output = _run(command, *arguments, says="y\n")
    assert (2, True) == (code, reason in output), output


@pytest.mark.parametrize("says", ["n\n", ""])
def test_whoever_says_no_gives_nothing_up(says: str) -> None:
    """Nor does whoever is not there to say yes: no broker is asked for anything."""
    code, output = _run("give-up", _PLACE, "--bootstrap", "127.0.0.1:9", says=says)
    assert 1 == code
    assert f'Send {_PLACE}, held by group "billing", to the dead letters? [y/N]:' in output


@pytest.mark.parametrize(
    "arguments", [[], ["--all", _PLACE], ["--all", "--member", "pod-1"], ["--member", "m", _PLACE]]
)
def test_a_retry_is_of_messages_or_of_circuits(arguments: list[str]) -> None:
    """One of the three ways to say which: exit code 2 for none, or two."""
    code, output = _run("retry", *arguments, "--bootstrap", "127.0.0.1:9")
    assert (2, True) == (code, "name the messages, or write --all, or --member MEMBER" in output)


def test_a_limit_is_lifted_with_a_reason() -> None:
    """It goes on record."""
    code, output = _run("lift-limit", "--bootstrap", "127.0.0.1:9")
    assert (2, True) == (code, "'--reason'" in output)


@pytest.mark.parametrize(
    ("more", "amount"), [([], "without a number"), (["--for", "50"], "for 50")]
)
def test_lifting_a_limit_is_asked_about(more: list[str], amount: str) -> None:
    """It was done at once, and `--yes`, which `give-up` takes, was no option of it."""
    asked = ("lift-limit", "--reason", "r", "--bootstrap", "127.0.0.1:9", *more)
    code, output = _run(*asked, says="n\n")
    question = f'Lift the limit of dead letters of group "billing", {amount}? [y/N]:'
    assert (1, True) == (code, question in output), output
    code, output = _run(*asked, "--yes", "--timeout", "1")
    assert (3, False) == (code, "[y/N]" in output), output


@pytest.fixture
def waiting() -> Iterator[tuple[EmbeddedKafka, LinearConsumer, list[bool]]]:
    """A consumer that holds a message whose next attempt is its last; and whether it is to fail."""
    fails = [True]

    def handle(_: Message) -> None:
        if fails[0]:
            raise ConnectionError("down")

    with broker_of_orders(b"first") as kafka:
        made = patient_consumer(kafka.bootstrap, control="linear-retry.control")
        with living(made, handle) as consumer:
            is_open = lambda: consumer.circuits[Scope()].state == "open"  # noqa: E731  (of one use)
            wait_until(is_open, "it is held")
            yield kafka, consumer, fails


_Waiting: TypeAlias = tuple[EmbeddedKafka, LinearConsumer, list[bool]]
_HELD = "orders[0]@0"


def test_the_last_attempt_is_asked_about(waiting: _Waiting) -> None:
    """A retry by hand could send the message to the dead letters, without a word of warning."""
    kafka, consumer, fails = waiting
    code, output = _run("retry", _HELD, "--bootstrap", kafka.bootstrap, says="n\n")
    assert (1, True) == (code, f"The next attempt of {_HELD} is the last" in output)
    assert "not attempted: one more failure would be its last" in output
    assert 1 == consumer.circuits[Scope()].failures
    fails[0] = False
    code, output = _run("retry", _HELD, "--bootstrap", kafka.bootstrap, says="y\n")
    assert (0, True) == (code, output.endswith(": recovered")), output


def test_with_yes_nobody_is_asked(waiting: _Waiting) -> None:
    """And the exit code says that it came to a dead letter."""
    kafka, _, _ = waiting
    code, output = _run("retry", _HELD, "--bootstrap", kafka.bootstrap, "--yes")
    assert (1, True) == (code, output.endswith("failed again, and is in the dead letters")), output


def test_a_retry_of_all_asks_about_the_last_attempts(waiting: _Waiting) -> None:
    """Then they are attempted by name."""
    kafka, _, fails = waiting
    fails[0] = False
    code, output = _run("retry", "--all", "--bootstrap", kafka.bootstrap, says="y\n")
    assert (0, True) == (code, output.endswith(": recovered")), output


def test_without_waiting_the_beginning_is_enough(waiting: _Waiting) -> None:
    """As whoever has scripts wants it: the outcome is in the log."""
    kafka, _, fails = waiting
    fails[0] = False
    code, output = _run("retry", _HELD, "--bootstrap", kafka.bootstrap, "--yes", "--no-wait")
    assert 0 == code
    assert output.endswith((": the attempt has begun", ": recovered")), output


def test_of_a_member_that_is_not_there_nobody_answers(waiting: _Waiting) -> None:
    """Exit code 3, with the name."""
    kafka, _, _ = waiting
    asked = "--member", "nobody", "--timeout", "1"
    code, output = _run("retry", *asked, "--bootstrap", kafka.bootstrap)
    assert (3, True) == (code, "no member 'nobody' follows this topic" in output), output


def test_a_missing_control_topic_is_reported() -> None:
    """Exit code 3; it is not created."""
    with EmbeddedKafka() as kafka:
        kafka.create_topic("orders")
        code, output = _run("retry", _PLACE, "--bootstrap", kafka.bootstrap)
    assert (3, True) == (code, "topic 'linear-retry.control' does not exist" in output)


def test_a_reload_says_what_is_in_force(tmp_path: Path) -> None:
    """In each member; exit code 1 where a file is refused, with what is wrong with it."""
    path = tmp_path / "pay.json"
    path.write_text("[1, 5]")
    with broker_of_orders() as kafka:
        options = {"strategy": StrategyFile(path), "control": "linear-retry.control"}
        asked = "reload", "--timeout", "1", "--bootstrap", kafka.bootstrap
        with living(patient_consumer(kafka.bootstrap, **options), lambda _: None):
            wait_until(lambda: 0 == _run(*asked)[0], "it follows the control topic")
            path.write_text("[1, 6]")
            code, output = _run("reload", "--bootstrap", kafka.bootstrap)
            label = Strategy([1, 6], name="pay").label
            assert (0, True) == (code, f": reloaded: {label} is in force" in output), output
            path.write_text("[1, six]")
            code, output = _run("reload", "--bootstrap", kafka.bootstrap)
            assert (1, True) == (code, f"not reloaded, {label} remains in force" in output), output
            assert "this is not JSON" in output


def test_a_group_is_paused_and_goes_on() -> None:
    """Asked about, with who and how long; a member that joins meanwhile obeys."""
    options = {"control": "linear-retry.control"}
    with broker_of_orders(b"first") as kafka:
        asked = ["--for", "30m", "--reason", "the ledger moves", "--bootstrap", kafka.bootstrap]
        code, output = _run("open", *asked, says="n\n")
        assert (1, True) == (code, 'Pause group "billing", for 30m?' in output), output
        with living(patient_consumer(kafka.bootstrap, **options), lambda _: None):
            asked += ["--yes", "--timeout", "2"]
            wait_until(lambda: ": paused until 20" in _run("open", *asked)[1], "it follows")
            code, output = _run("open", *asked, "--for", "8h")
            assert (0, True) == (code, ", as it allows no more: group_pause_max_s" in output)
            _run("open", *asked)
        handled = list[int | None]()
        with living(
            patient_consumer(kafka.bootstrap, **options), lambda one: handled.append(one.offset())
        ) as second:
            wait_until(lambda: second.circuits[Scope()].waits_for == "pause", "it obeys")
            kafka.produce("orders", [b"second"])
            code, output = _run("close", "--bootstrap", kafka.bootstrap)
            assert (0, True) == (code, output.endswith("the pause is ended")), output
            wait_until(lambda: 1 in handled, "it goes on")


@pytest.mark.parametrize("wrong", ["soon", "0s", "-5m"])
def test_how_long_is_a_duration(wrong: str) -> None:
    """Exit code 2, with what it would be."""
    code, output = _run("open", f"--for={wrong}", "--reason", "r", "--bootstrap", "127.0.0.1:9")
    assert (2, True) == (code, "is not a duration; write one such as 30m" in output), output
