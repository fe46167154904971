"""docs/guides/topics.md is true."""

import shlex
from typing import get_args

import pytest
from typer.testing import CliRunner

from linear_retry.cli import app
from linear_retry.cli.topics import commands
from linear_retry.records.topics.check import Rule
from linear_retry.records.topics.description import Purpose, TopicDescription
from linear_retry.records.topics.names import derived_name
from linear_retry.records.topics.setup import TopicSetup, needed_topics, retry_topics
from tests.docs.markdown import blocks, code, page, table
from tests.real_kafka import RealKafka

_PAGE = page("docs/guides/topics.md")
_PREFIX = derived_name("orders", "billing", "retry")
_SOURCE = TopicDescription("an-id", 6, 3, True, None, None, False, True, True)
_SETUP = TopicSetup(
    sources=("orders",),
    group="billing",
    retry_topics=retry_topics(_PREFIX, (300_000, 1_800_000, 3_600_000)),
    prefix=_PREFIX,
    dead_letters=derived_name("orders", "dlq"),
    journal="linear-retry.journal",
    control="linear-retry.control",
)


def test_every_topic_is_there() -> None:
    """Those that the command creates for the page's example, in their order."""
    rows = table(_PAGE, "topic")
    assert [*_SETUP.names] == [name for row in rows for name in code(row[0])]
    made = [purpose for purpose in get_args(Purpose) if purpose != "scheduler"]
    assert made == [code(row[1])[0] for row in rows]


def test_the_settings_are_those_of_the_table() -> None:
    """Each that a row quotes with its value is set."""
    settings = {topic.purpose: topic.settings for topic in needed_topics(_SETUP, [_SOURCE])}
    for _, purpose, said in table(_PAGE, "topic"):
        quoted = dict(part.split("=") for part in code(said) if "=" in part)
        (name,) = [one for one in get_args(Purpose) if one == code(purpose)[0]]
        assert quoted.items() <= settings[name].items()


def test_every_rule_is_there() -> None:
    """And no other."""
    assert set(get_args(Rule)) == {code(row[0])[0] for row in table(_PAGE, "rule")}


def test_every_command_is_there() -> None:
    """Each of the group is shown."""
    lines = [line for block in blocks(_PAGE, "sh") for line in block.splitlines()]
    shown = [shlex.split(line)[2] for line in lines]
    there = [one.callback.__name__ for one in commands.app.registered_commands if one.callback]
    assert there == shown


@pytest.mark.broker
def test_what_is_typed_takes_effect(own_kafka: RealKafka) -> None:
    """The page's commands, in their order: planned, created, and nothing is wrong with it."""
    own_kafka.create_topic("orders", 2)
    commands = [line for block in blocks(_PAGE, "sh") for line in block.splitlines()]
    plan, create, check, status = commands
    planned = _typed(plan, own_kafka)
    assert all(name in planned for name in _SETUP.names)
    assert [f"{name}: created" for name in _SETUP.names] == [
        line.partition(",")[0] for line in _typed(create, own_kafka).splitlines()
    ]
    assert "" == _typed(check, own_kafka)
    head, *rows = [line.split("\t") for line in _typed(status, own_kafka).splitlines()]
    columns = [name for row in table(_PAGE, "status column") for name in code(row[0])]
    assert columns == head
    assert [[name, "0"] for name in _SETUP.retry_topics] == [[row[0], row[2]] for row in rows]


def _typed(command: str, kafka: RealKafka) -> str:
    program, *arguments = shlex.split(command.replace("localhost:9092", kafka.bootstrap))
    assert "linear-retry" == program
    done = CliRunner().invoke(app, arguments)
    assert 0 == done.exit_code, done.output
    return done.stdout
