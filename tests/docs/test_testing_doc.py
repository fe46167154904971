"""docs/guides/testing.md is true."""

import inspect
import re
from typing import Any

import pytest

import linear_retry.testing as testing
from linear_retry.testing import EmbeddedKafka, EventLog, Guarantee
from tests.docs.markdown import blocks, code, page, table

pytest_plugins = ["pytester"]

_PAGE = page("docs/guides/testing.md")
_EXAMPLE, _FAULTS = blocks(_PAGE, "python")
_HANDLER = """
failures = [ConnectionError("slow"), None, ValueError("no such account"), None]

def charge(message):
    error = failures.pop(0)
    if error is not None:
        raise error
"""


def test_the_example_is_a_test(pytester: pytest.Pytester) -> None:
    """In a directory of its own, with nothing but the package: an outage, and a dead letter."""
    pytester.makepyfile(billing=_HANDLER, test_billing=_EXAMPLE)
    ran = pytester.runpytest_subprocess("-q", "-p", "no:cacheprovider")
    ran.assert_outcomes(passed=1)


@pytest.mark.parametrize("is_open", [False, True])
def test_the_example_takes_the_program_of_getting_started(
    pytester: pytest.Pytester, is_open: bool
) -> None:
    """pytest joined the real group while it collected, and never came back: no guard was there."""
    billing = blocks(page("docs/getting-started.md"), "python")[2]
    # A constructor that is reached while the module is imported raises: no group has this name.
    without_group = billing.replace('"group.id": "billing"', '"group.id": ""')
    assert without_group != billing
    pytester.makepyfile(billing=without_group, test_billing=_EXAMPLE)
    if is_open:
        pytester.makefile("", **{"bank-is-open": ""})
    pytester.runpytest_subprocess("-q", "-p", "no:cacheprovider").assert_outcomes(passed=1)


def test_the_example_can_fail(pytester: pytest.Pytester) -> None:
    """Where nothing was committed, the guarantee that says so is named."""
    uncommitted = re.sub(r"log\.committed\(.*", "log.committed({})", _EXAMPLE)
    pytester.makepyfile(billing=_HANDLER, test_billing=uncommitted)
    ran = pytester.runpytest_subprocess("-q", "-p", "no:cacheprovider")
    ran.assert_outcomes(failed=1)
    ran.stdout.fnmatch_lines(["*NothingLost*orders?0?: done up to 2, committed up to 0*"])


def test_the_faults_are_there() -> None:
    """Each fault of the page can be made."""
    exec(_FAULTS, {})


def test_the_table_has_every_guarantee() -> None:
    """And its arguments."""
    reported = {code(row[0])[0].split("(")[0] for row in table(_PAGE, "guarantee")}
    there = {
        name
        for name in testing.__all__
        if inspect.isclass(item := getattr(testing, name)) and issubclass(item, Guarantee)
    }
    assert there - {"Guarantee"} == reported


def test_the_table_has_everything_that_writes_to_the_log() -> None:
    """Every public method of `EventLog` that writes an entry."""
    reported = {name for row in table(_PAGE, "call") for name in _methods(" ".join(row))}
    there = {name for name, _ in inspect.getmembers(EventLog, inspect.isfunction) if name[0] != "_"}
    assert there - {"watch"} == reported


def test_what_a_user_gets_says_what_it_promises() -> None:
    """Every public name has a docstring, and so has each of its public methods."""
    for name in testing.__all__:
        item: Any = getattr(testing, name)
        if not inspect.isfunction(item) and not inspect.isclass(item):
            continue
        assert inspect.getdoc(item), name
    for key, member in vars(EmbeddedKafka).items():
        assert key.startswith("_") or not callable(member) or inspect.getdoc(member), key


def _methods(text: str) -> list[str]:
    return [
        part.split("(")[0]
        for inline in code(text)
        for part in inline.split("log.")[1:]
        if "(" in part or part.isidentifier()
    ]


def test_the_page_names_no_file_of_ours() -> None:
    """What a user reads works without the checkout."""
    assert "tests/" not in _PAGE
