"""docs/guides/retry-off-the-line.md is true."""

import inspect
import pickle
import re
import sys
import types
from collections.abc import Iterator

import pytest
import yaml

import linear_retry
from linear_retry import run_together
from linear_retry.cli.topics import commands
from linear_retry.kafka import Message
from tests.consumer.group import LETTERS, TOPIC, consumer_on
from tests.docs.markdown import blocks, page, table
from tests.fake.cluster import FakeKafka

_PAGE = page("docs/guides/retry-off-the-line.md")
_PROGRAM, _SERVED, _TRACED, _ASYNC, _ON_ONE_LOOP, _SERVICES = blocks(_PAGE, "python")


@pytest.fixture
def program(monkeypatch: pytest.MonkeyPatch) -> Iterator[types.ModuleType]:
    """The page's program as a module, as the process of its retry line imports it."""
    module = types.ModuleType("page")
    monkeypatch.setitem(sys.modules, "page", module)
    for block in (_PROGRAM, _SERVED, _TRACED, _SERVICES):
        exec(block, vars(module))
    yield module
    module.payments.close()


def test_the_lines_belong_together(program: types.ModuleType) -> None:
    """In the groups that the page names, and both can be pickled with their functions."""
    live, retry = program.live_line(), program.retry_line()
    assert ("billing", "billing.retry") == (live.group_id, retry.group_id)
    functions = (program.charge, program.retry_line, program.traced_charge)
    for function in (*functions, program.served_retry_line):
        assert function is pickle.loads(pickle.dumps(function))


def test_the_calls_have_the_names_of_the_library(program: types.ModuleType) -> None:
    """Each function that the page names in code is public, and takes what it is given."""
    named = set(re.findall(r"\brun(?:ning)?_together(?:_async)?\b", _PAGE))
    assert {"run_together"} <= named <= set(linear_retry.__all__)
    assert "threads" in inspect.signature(run_together).parameters
    for block in (_ASYNC, _ON_ONE_LOOP):
        compile(block, "page", "exec")


def test_the_handler_is_traced(program: types.ModuleType) -> None:
    """The `Tracing` of the module belongs to the line that this process creates."""
    fake = FakeKafka(balanced=True)
    for topic in (TOPIC, LETTERS):
        fake.create_topic(topic, 1)
    fake.append(TOPIC, 0, b"an order")
    handled: list[Message] = []
    with consumer_on(fake, listeners=[program.TRACING]) as consumer:

        def charge(message: Message) -> None:
            handled.append(message)
            consumer.stop()

        vars(program)["charge"] = charge
        consumer.run(program.traced_charge)
    assert [b"an order"] == [message.value() for message in handled]


def test_the_topics_are_created_by_a_command_that_exists() -> None:
    """`topics create`, for the group of the program."""
    (line,) = blocks(_PAGE, "sh")
    there = {one.callback.__name__ for one in commands.app.registered_commands if one.callback}
    assert line.split()[2] in there
    assert "--group billing --strategy retry-topics" in line


def test_the_figures_are_those_of_the_benchmarks() -> None:
    """The rates of the live line are in the table of measurements."""
    rows = table(page("benchmarks/README.md"), "retry topics")
    (measured,) = (row[:2] for row in rows if "1 ms of I/O" in row[0])
    alone, process, thread = (row[1] for row in table(_PAGE, "the retry line"))
    process, thread, best = re.findall(r"0\.\d+", process + thread)
    assert f"{alone} per second alone" in measured[0]
    assert f"{process} of that with a process, {thread} with a thread" in measured[1]
    assert f"to {best})" in measured[1]


def test_the_manifest_is_yaml() -> None:
    """With the argument of the program's retry line."""
    (manifest,) = blocks(_PAGE, "yaml")
    assert "retry" == yaml.safe_load(manifest)["containers"][0]["args"][-1]
