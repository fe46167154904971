"""The options of `linear-retry topics`, without a broker."""

import json
from pathlib import Path
from typing import Any

import pytest
import typer
from typer.testing import CliRunner

from linear_retry.cli import app
from linear_retry.cli.topics.options import SetupOptions
from linear_retry.errors import StrategyError
from linear_retry.records.topics.setup import TopicSetup


def _setup(directory: Path, *sources: str, **options: Any) -> TopicSetup:
    file = directory / "retries.json"
    file.write_text(json.dumps(options.pop("delays", ["5m"])))
    return SetupOptions(sources=[*sources], group="billing", strategy=file, **options).setup()


def test_names_are_those_of_source_and_group(tmp_path: Path) -> None:
    """Unless they are given."""
    made = _setup(tmp_path, "orders")
    assert {"orders.billing.retry.5m": 300_000} == made.retry_topics
    assert ("orders.billing.retry", "orders.dlq") == (made.prefix, made.dead_letters)
    given = _setup(tmp_path, "orders", prefix="later", dead_letters="failed")
    assert ("later", "failed") == (given.prefix, given.dead_letters)


def test_one_topic() -> None:
    """That of RetryTopics.single has the name that it is given, and needs no strategy."""
    options = SetupOptions(sources=["orders"], group="billing", single="later", every="10s")
    made = options.setup()
    assert ({"later": 10_000}, None) == (made.retry_topics, made.prefix)


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ([], "either --strategy FILE, or --single TOPIC --every DURATION"),
        (["--single", "later"], "either --strategy FILE, or --single TOPIC --every DURATION"),
        (["--single", "later", "--every", "8d"], "7 days at most"),
        (["--single", "later", "--every", "0"], "must be above 0"),
        (["--strategy", "simple", "--every", "1s"], "either --strategy FILE"),
        (["--strategy", "simple", "--scheduler", "later"], "or --scheduler TOPIC"),
        (["--scheduler", "a b"], "the name of a topic"),
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
    assert 2 == sum(name.startswith("linear-retry") for name in _setup(tmp_path, "orders").names)
    made = _setup(tmp_path, "orders", no_journal=True, no_control=True)
    assert (None, None) == (made.journal, made.control)


@pytest.mark.parametrize(
    ("sources", "options", "words"),
    [
        (["orders", "returns"], {}, "2 sources: there is no default name"),
        (["orders/eu"], {}, "the name of a topic has at most 249"),
        (["orders"], {"dead_letters": "orders"}, "'orders': two topics have this name"),
        (["orders"], {"convention": True}, "<namespace>.<product>[.<data-type>].<event-type>"),
        (["orders"], {"delays": {"delays": ["5m"], "jitter": 0.1}}, "no jitter (0.1)"),
        (["orders"], {"delays": []}, "no delays"),
        (["orders"], {"delays": ["5 minutes"]}, "is not a duration"),
    ],
)
def test_what_cannot_be_planned(
    tmp_path: Path, sources: list[str], options: dict[str, Any], words: str
) -> None:
    """Wrong usage, with what to do; one topic has one delay, the same for all its records."""
    with pytest.raises((typer.BadParameter, StrategyError)) as caught:
        _setup(tmp_path, *sources, **options)
    assert words in str(caught.value)


def test_the_convention(tmp_path: Path) -> None:
    """Names that are derived have its form, so a source that has it needs no more."""
    shared = {"no_journal": True, "no_control": True}
    made = _setup(tmp_path, "org.orders.created", convention=True, **shared)
    assert "org.orders.created-billing-retry" == made.prefix
    assert "org.orders.created-dlq" == made.dead_letters
