"""README.md is true."""

import re

import pytest
from typer.testing import CliRunner

from linear_retry.cli import app
from tests.charges import run_example
from tests.docs.markdown import blocks, code, page, table

_README = page("README.md")
(_PROGRAM,) = blocks(_README, "python")
_LONGEST = 1300


def test_it_is_read_in_a_few_minutes() -> None:
    """It has at most 1,300 words, and its program at most 20 lines."""
    assert len(_README.split()) <= _LONGEST
    assert len([line for line in _PROGRAM.splitlines() if line]) <= 20


def test_the_example_runs() -> None:
    """The program does what the README says, and logs what it shows."""
    logged = run_example(_PROGRAM).splitlines()
    (log,) = blocks(_README, "text")
    known = [_without_numbers(line) for line in logged if ":linear_retry:" in line]
    assert [] == [line for line in log.splitlines() if _without_numbers(line) not in known]


def _without_numbers(line: str) -> str:
    return re.sub(r"\d+", "0", line)


def _commands(name: str) -> list[str]:
    """What the README calls by this name, without comments."""
    prose = re.sub(r"^```.*?^```$", "", _README, flags=re.DOTALL | re.MULTILINE)
    lines = [*"".join(blocks(_README, "sh")).splitlines(), *code(prose)]
    return [line.partition("#")[0].strip() for line in lines if line.startswith(f"{name} ")]


@pytest.mark.parametrize("command", _commands("linear-retry"))
def test_commands_exist(command: str) -> None:
    """Each command that is shown exists, with the options that are shown."""
    words = command.split()[1:]
    names = [word for word in words if re.fullmatch("[a-z]+", word)]
    options = [word for word in words if word.startswith("--")]
    result = CliRunner().invoke(app, [*names, "--help"], prog_name="linear-retry")
    assert 0 == result.exit_code, result.output
    assert [] == [option for option in options if option not in result.output]


@pytest.mark.parametrize("command", _commands("make"))
def test_make_has_the_targets(command: str) -> None:
    """Each `make` that is shown has its target."""
    target = command.split()[1]
    assert re.search(rf"^{target}:", page("Makefile"), re.MULTILINE)


def test_its_figures_agree() -> None:
    """The bug: the overhead of a success stood beside rates of another run, which said 0.1 µs."""
    (overhead_us,) = re.findall(
        r"^\| overhead of a success .* \| ([\d.]+) µs", _README, re.MULTILINE
    )
    (rates,) = re.findall(r"^\| messages per second, .* \| (.*) \|$", _README, re.MULTILINE)
    ours, bare = (int(rate.replace(",", "")) for rate in re.findall(r"[\d,]{5,}", rates))
    assert overhead_us == f"{1e6 / ours - 1e6 / bare:.2f}"


def test_schedules_run_on_the_fake() -> None:
    """The bug: they were said to run on real brokers, and full disks to be among the tests."""
    (promise,) = (line for line in _README.splitlines() if "random schedules" in line)
    row = next(
        row for row in table(page("docs/about/reliability.md"), "layer") if "schedules" in row[0]
    )
    assert ("fake Kafka" in promise, "fake Kafka" in row[1]) == (True, True)
    assert "disks that fail" in page("docs/about/reliability.md").split("## What is not tested")[1]
    assert "disk" not in promise
