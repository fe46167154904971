"""The proposed delays are shown with what they save, and with what to run."""

from typing import Any

import pandas as pd  # type: ignore[import-untyped]  # it has no types
import pytest

from linear_retry.report.delays import section, to_do
from linear_retry.report.section import Tables, records
from tests.report.frames import GROUPS, HOSTILE, week


def _changed(**fields: Any) -> Tables:
    """The tables of a week, with something else about the proposal for the first group."""
    first = records(week()["proposals"])[0]
    return {**week(), "proposals": pd.DataFrame([{**first, **fields}])}


def _run(tables: Tables, group: str, lake: str = "lake") -> str:
    grid = to_do(tables, lake)
    assert grid is not None
    [row] = [row for row in grid.rows if row[0] == group]
    return row[-1]


def test_most_wasted_comes_first() -> None:
    """A row for each group, by the time that was waited after the dependency was back."""
    grid = to_do(week(), "lake")
    assert grid is not None
    wasted = sorted(records(week()["groups"]), key=lambda row: -row["unsure_s"])
    assert [row["group"][:20] for row in wasted] == [row[0][:20] for row in grid.rows]


def test_what_to_run_is_a_command_that_a_shell_takes_as_it_is() -> None:
    """The group and the lake are quoted."""
    assert _run(week(), "billing", "my lake") == (
        "linear-retry spark tune --lake 'my lake' --group billing --probe-cost 10 --cover 0.95 "
        "--to strategy.json"
    )
    name = HOSTILE.replace("\u2028", "")
    groups = week()["groups"].iloc[:1].assign(group=name)
    assert "--group '</script>" in _run({**_changed(group=name), "groups": groups}, name)


def test_the_command_is_whole() -> None:
    """The bug: long names were truncated in it as in other cells, and so it failed."""
    name = "payments-of-" * 20
    tables = {**_changed(group=name), "groups": week()["groups"].iloc[:1].assign(group=name)}
    grid = to_do(tables, f"hdfs:///{name}")
    assert grid is not None
    [[cell, *_, command]] = grid.rows
    assert cell.endswith("…")
    assert f" --lake hdfs:///{name} --group {name} --" in command


@pytest.mark.parametrize(
    ("fields", "text"),
    [
        ({"verdict": "too few", "ended": 12, "needed": 59}, "12 outages have a known end, and it"),
        ({"verdict": "unreachable"}, "a longer strategy first"),
        ({"verdict": "clocks apart"}, "nothing yet: the clocks of its members disagree"),
        ({"verdict": "not confirmed"}, "nothing yet: the proposal covers too few"),
        ({"saved_low_s": -1.0}, "nothing: the proposed delays save nothing for sure"),
        ({"group": "other"}, "nothing yet: no outage has known bounds"),
    ],
)
def test_where_there_is_nothing_to_run_it_says_why(fields: dict[str, Any], text: str) -> None:
    """No command whose strategy would not be written, or would save nothing."""
    assert text in _run(_changed(**fields), "billing")


def test_the_delays_themselves_are_shown() -> None:
    """As a strategy file has them, with what they save; what failed its check saves nothing."""
    [found] = section(week())
    rows = {row[0]: row for row in found.grids[0].rows}
    assert '["47s", {"every": "1m", "times": 4}, "10m"]' == rows["billing"][2]
    assert ("2.3 min", "2 min to 2.7 min") == rows["billing"][-2:]
    failed = rows[GROUPS[1]]
    assert failed[2].endswith("(not confirmed)")
    assert ("–", "–") == failed[-2:]
    assert any("ended 36 s to 5.6 min after the first failure" in note for note in found.notes)


def test_what_would_tell_more_is_named() -> None:
    """Where attempts are missing, what that costs, and the two that would show it."""
    [found] = section(_changed(gap_from_s=600.0, gap_until_s=900.0, gap_first_s=690.0))
    assert "costs up to 15 s per outage; attempts after 12 min and 2.7 min" in found.notes[-1]


def test_without_proposals_there_is_no_section() -> None:
    """Nor without outages a table of what to run."""
    tables = {name: table for name, table in week().items() if name != "proposals"}
    assert [] == section(tables)
    assert "nothing yet" in _run(tables, "billing")
    assert to_do({}, "lake") is None
