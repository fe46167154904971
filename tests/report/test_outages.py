"""The charts of outages show short and long ones on scales that fit them."""

from typing import Any

import pandas as pd  # type: ignore[import-untyped]  # it has no types
import pytest

from linear_retry.report.outages import sections
from linear_retry.report.section import Section, Tables, records
from tests.report.frames import GROUPS, week


def _shown(tables: Tables) -> tuple[Section, Section]:
    over_time, durations, _ = sections(tables)
    return over_time, durations


def _of_half_a_second() -> Tables:
    """The week of one group, with outages of 20 ms to half a second."""
    tables = {name: table[table["group"] == GROUPS[0]] for name, table in _of_outages().items()}
    curve, ends = tables["durations"], tables["duration_quantiles"]
    times = {name: ends[name] / 1000 for name in ("after_s", "low_s", "high_s")}
    return {
        **tables,
        "durations": curve.assign(after_s=curve["after_s"].rank() * 0.48 / len(curve) + 0.02),
        "duration_quantiles": ends.assign(**times),
    }


def _of_outages() -> dict[str, pd.DataFrame]:
    names = ("groups", "outages_over_time", "durations", "duration_quantiles")
    return {name: table for name, table in week().items() if name in names}


def test_when_most_outages_have_ended_is_in_view() -> None:
    """Below the curve of each group, and as named points on it, without anything to open."""
    _, durations = _shown(_of_outages())
    chart = durations.charts[0]
    assert (
        "110 outages, 90 with a known end. p50 70 s (62 s to 90 s), p95 12 min (more than 10 min), "
        "p99 not known."
    ) == chart.caption
    named = [row for layer in chart.spec["layer"] for row in _values(chart.spec, layer)]
    points = {row["name"]: (row["after_s"], row["lasting"]) for row in named if "name" in row}
    assert {"p50": (70.0, 0.5), "p95": pytest.approx((700.0, 0.05))} == points


def test_a_week_without_outages_does_not_hide_short_ones() -> None:
    """Cells of seconds and of days differ in one heat map: its scale is logarithmic, also at 0."""
    over_time, _ = _shown(_of_outages())
    assert "symlog" == over_time.charts[0].spec["encoding"]["opacity"]["scale"]["type"]


def test_outages_of_less_than_a_second_have_an_axis_of_their_own() -> None:
    """It begins and ends where they do, with ticks that have the unit."""
    tables = _of_half_a_second()
    times_s = [row["after_s"] for row in records(tables["durations"])]
    _, durations = _shown(tables)
    x = durations.charts[0].spec["layer"][0]["encoding"]["x"]
    assert ("log", [min(times_s), max(times_s)]) == (x["scale"]["type"], x["scale"]["domain"])
    assert ([0.1], True) == (x["axis"]["values"], "100 ms" in x["axis"]["labelExpr"])


def _values(spec: Any, layer: Any) -> list[dict[str, Any]]:
    data = layer.get("data", spec.get("data", {}))
    found: list[dict[str, Any]] = data.get("values") or spec["datasets"][data["name"]]
    return found
