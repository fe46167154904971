"""docs/guides/scheduler.md is true."""

import re
import shlex
import types

import pytest
from typer.testing import CliRunner

from linear_retry import Scheduler
from linear_retry.cli import app
from linear_retry.records.record import Record
from linear_retry.records.retry_headers import HEADER_NAMES
from linear_retry.scheduler.contract import read_request
from linear_retry.scheduler.destinations import Destinations
from linear_retry.store.records import NewMessage
from linear_retry.store.sender.sender import LEASE_S
from linear_retry.store.sender.settlement import until_it_works
from tests.docs.markdown import blocks, code, page, table

_PAGE = page("docs/guides/scheduler.md")
_SHELL = [line for block in blocks(_PAGE, "sh") for line in block.replace("\\\n", "").splitlines()]
_COMMANDS = [line for line in _SHELL if line.startswith("linear-retry ")]
_NOW_MS = 1_767_225_600_000


@pytest.mark.parametrize("line", _COMMANDS)
def test_the_commands_are_there(line: str) -> None:
    """Each with its options."""
    words = shlex.split(line)[1:]
    options = [word for word in words if word.startswith("-")]
    group, name = words[:2]
    helped = CliRunner(env={"COLUMNS": "200"}).invoke(app, [group, name, "--help"])
    assert 0 == helped.exit_code
    known = set(re.findall(r"--[a-z-]+", helped.output))
    assert [] == [option for option in options if option not in known]


def test_the_consumer_sends_to_the_scheduler() -> None:
    """The page's program creates a consumer with the topic and the delays that the text names."""
    module = types.ModuleType("page")
    (program,) = blocks(_PAGE, "python")
    exec(program, vars(module))
    consumer = module.billing()
    retries = consumer._config.retries
    assert isinstance(retries, Scheduler)
    assert ("billing.scheduled", (300_000, 3_600_000, 86_400_000)) == (
        retries.topic,
        retries.strategy.delays_ms,
    )
    module.payments.close()


def test_the_headers_of_the_contract() -> None:
    """Those that are needed are enough, no header that the page names is unknown, and one without
    a needed one is dead."""
    rows = table(_PAGE, "header")
    assert {code(row[0])[0] for row in rows} <= HEADER_NAMES
    needed = [code(row[0])[0] for row in rows if row[1] == "yes"]
    values = {"retry-destination": b"orders", "retry-at-ms": b"0"}
    destinations = Destinations("billing.scheduled", ("orders*",))
    for left_out in (None, *needed):
        headers = tuple((name, values[name]) for name in needed if name != left_out)
        record = Record("billing.scheduled", 0, 0, -1, None, None, headers)
        found = read_request(record, destinations, _NOW_MS)
        assert isinstance(found, NewMessage) == (left_out is None)


def test_kcat_and_java_write_what_is_needed() -> None:
    """Both examples have the headers, and kcat's time is one in the future."""
    (java,) = blocks(_PAGE, "java")
    (kcat,) = [line for line in _SHELL if "kcat -P" in line]
    for example in (java, kcat):
        assert {"retry-destination", "retry-at-ms"} <= set(
            re.findall(r"retry-[a-z-]*[a-z]", example)
        )
    assert "(date +%s) + 3600) * 1000" in kcat


def test_the_figures() -> None:
    """The reasons, waits and times of the page are the code's."""
    reasons = {code(row[0])[0] for row in table(_PAGE, "reason")}
    assert {"unreadable", "not-allowed", "too-far", "too-large", "refused"} == reasons
    assert f"replaced after {LEASE_S:g} s" in _PAGE
    assert [1, 2, 5, 10, 30, 60, 60] == [until_it_works(failures) for failures in range(1, 8)]
