"""The options of `linear-retry topics`, without a broker."""

import json
from pathlib import Path

import pytest
from typer.testing import CliRunner

from linear_retry.cli import app
from tests.cli.result import Result


def _plan(directory: Path, *arguments: str, strategy: object = ("5m",)) -> Result:
    """The permissions of a plan, for which no broker is asked."""
    file = directory / "retries.json"
    file.write_text(json.dumps(strategy))
    options = ["--group", "billing", "--strategy", str(file), "-b", "127.0.0.1:1", "--kafka-acls"]
    done = CliRunner(env={"COLUMNS": "300"}).invoke(app, ["topics", "plan", *arguments, *options])
    return Result(done.exit_code, done.stdout, done.stderr)


def test_names_are_those_of_source_and_group(tmp_path: Path) -> None:
    """Unless they are given."""
    done = _plan(tmp_path, "orders")
    assert 0 == done.code
    for words in (
        "--topic orders.billing.retry. ",
        "--topic orders.dlq\n",
        "--group billing.retry\n",
    ):
        assert words in done.out
    given = _plan(tmp_path, "orders", "--prefix", "later", "--dead-letters", "failed")
    assert "--topic later. " in given.out
    assert "--topic failed\n" in given.out


def test_one_topic(tmp_path: Path) -> None:
    """That of RetryTopics.single has the name that it is given, and needs no strategy."""
    source = ["topics", "plan", "orders", "--group", "billing", "-b", "127.0.0.1:1", "--kafka-acls"]
    done = CliRunner().invoke(app, [*source, "--single", "later", "--every", "10s"])
    assert 0 == done.exit_code
    assert "--topic later\n" in done.stdout
    assert "prefixed" not in done.stdout


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ([], "either --strategy FILE, or --single TOPIC --every DURATION"),
        (["--single", "later"], "either --strategy FILE, or --single TOPIC --every DURATION"),
        (["--single", "later", "--every", "8d"], "7 days at most"),
        (["--single", "later", "--every", "0"], "must be above 0"),
        (["--strategy", "simple", "--every", "1s"], "either --strategy FILE"),
    ],
)
def test_a_strategy_or_one_topic(arguments: list[str], words: str) -> None:
    """And neither both nor half of one."""
    command = ["topics", "plan", "orders", "--group", "billing", "-b", "127.0.0.1:1"]
    done = CliRunner(env={"COLUMNS": "300"}).invoke(app, [*command, *arguments])
    assert (2, "") == (done.exit_code, done.stdout)
    assert words in done.stderr


def test_without_journal_and_control(tmp_path: Path) -> None:
    """A consumer that has neither needs no topics for them."""
    assert "linear-retry" in _plan(tmp_path, "orders").out
    assert "linear-retry" not in _plan(tmp_path, "orders", "--no-journal", "--no-control").out


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["orders", "returns"], "2 sources: there is no default name"),
        (["orders/eu"], "the name of a topic has at most 249"),
        (["orders", "--dead-letters", "orders"], "'orders': two topics have this name"),
        (["orders", "--json"], "leave out --json"),
        (["orders", "--convention"], "<namespace>.<product>[.<data-type>].<event-type>"),
    ],
)
def test_what_cannot_be_planned(tmp_path: Path, arguments: list[str], words: str) -> None:
    """Wrong usage, with what to do."""
    done = _plan(tmp_path, *arguments)
    assert (2, "") == (done.code, done.out)
    assert words in done.err


@pytest.mark.parametrize(
    ("strategy", "words"),
    [
        ({"delays": ["5m"], "jitter": 0.1}, "no jitter (0.1)"),
        ([], "no delays"),
        (["5 minutes"], "is not a duration"),
    ],
)
def test_strategies_that_retry_topics_cannot_have(
    tmp_path: Path, strategy: object, words: str
) -> None:
    """One topic has one delay, the same for all its records."""
    done = _plan(tmp_path, "orders", strategy=strategy)
    assert (2, "") == (done.code, done.out)
    assert words in done.err


def test_the_convention(tmp_path: Path) -> None:
    """Names that are derived have its form, so a source that has it needs no more."""
    done = _plan(tmp_path, "org.orders.created", "--convention", "--no-journal", "--no-control")
    assert 0 == done.code
    assert "--topic org.orders.created-billing-retry. " in done.out
    assert "--topic org.orders.created-dlq\n" in done.out
