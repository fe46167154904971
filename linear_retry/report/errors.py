"""Which errors were waited for in vain, and which were given up that pass by themselves?"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from typing import Any

import altair as alt

from linear_retry.report.section import Chart, Column, Grid, Row, Section, Swatch, Tables, records
from linear_retry.report.style import AMBER, GREEN, GREY, STEP, colors, data, names, spec
from linear_retry.report.words import count, moment, shown

FEWEST_IN_VAIN = 5
FEWEST_GIVEN_UP, FEWEST_RECOVERED = 3, 3
_ERRORS = 15
_ENDS = {
    "recovered": ("recovered", GREEN),
    "given_up": ("given up", AMBER),
    "unknown": ("ended otherwise, or no end known", GREY),
}


def in_vain(rows: list[Row]) -> list[Row]:
    """Errors of a group that were treated as transient, and of which no outage has recovered."""
    return [
        row
        for row in rows
        if row["error"] and not row["recovered"] and row["given_up"] >= FEWEST_IN_VAIN
    ]


@dataclass(frozen=True, slots=True)
class TooSoon:
    """An error that a group gives up at once, and of which outages recover: here, or in others."""

    group: Any
    error: str
    letters: int
    recovered_here: int
    recovered_elsewhere: int


def too_soon(rows: list[Row]) -> list[TooSoon]:
    """Errors of a group that were treated as permanent, and pass where they are waited for."""
    recovered: Counter[str] = Counter()
    for row in rows:
        recovered[row["error"]] += row["recovered"]
    return [
        TooSoon(
            *(row["group"], row["error"], row["letters_permanent"]),
            *(row["recovered"], recovered[row["error"]] - row["recovered"]),
        )
        for row in rows
        if row["error"]
        and row["letters_permanent"] >= FEWEST_GIVEN_UP
        and recovered[row["error"]] >= FEWEST_RECOVERED
    ]


def section(tables: Tables) -> Section:
    """What became of the outages of each error, and the two kinds of doubtful ones."""
    rows = records(tables["errors"])
    vain = sorted(in_vain(rows), key=lambda row: -row["given_up"])
    soon = sorted(too_soon(rows), key=lambda each: -each.letters)
    grids = []
    if vain:
        title = "Treated as transient, never recovered"
        grids.append(Grid.of(title, vain, _VAIN_COLUMNS, "errors"))
    if soon:
        title = "Treated as permanent, but they recover where they are waited for"
        told = [{name: getattr(each, name) for name in TooSoon.__slots__} for each in soon]
        grids.append(Grid.of(title, told, _SOON_COLUMNS, "errors"))
    begun = [row for row in rows if row["outages"]]
    charts = (_chart(begun),) if begun else ()
    return Section("Transient or not", _said(len(vain), len(soon)), charts, tuple(grids), _NOTES)


_NOTES = (
    f"In vain: {FEWEST_IN_VAIN} outages or more of a group began with the error and were given up, "
    f"and none recovered. Too soon: {FEWEST_GIVEN_UP} letters or more of a group were given up at "
    f"once, and {FEWEST_RECOVERED} outages or more that began with the error recovered, in any "
    "group.",
    "An error is the last part of its type’s name, since the journal often has no more: two types "
    "of one name look like one here.",
)


def _said(vain: int, soon: int) -> str:
    if not vain and not soon:
        return "Nothing here speaks against how errors are told apart."
    errors = ("error was", "errors were")
    parts = []
    if vain:
        parts.append(f"{vain} {errors[vain > 1]} waited for in vain")
    if soon:
        parts.append(f"{soon} {errors[soon > 1]} given up at once that recover elsewhere or later")
    return f"{', and '.join(parts)}."


def _chart(rows: list[Row]) -> Chart:
    sums: Counter[tuple[str, str]] = Counter()
    for row in rows:
        name = shown(row["error"])
        unknown = row["outages"] - row["recovered"] - row["given_up"]
        for end, number in (("recovered", row["recovered"]), ("given_up", row["given_up"])):
            sums[name, end] += number
        sums[name, "unknown"] += unknown
    whole: Counter[str] = Counter()
    for (name, _), number in sums.items():
        whole[name] += number
    order = [name for name, _ in whole.most_common(_ERRORS)]
    rank = {end: at for at, end in enumerate(_ENDS)}
    values = [
        {"error": name, "end": _ENDS[end][0], "rank": rank[end], "outages": number}
        for (name, end), number in sums.items()
        if number and name in order
    ]
    x = alt.X("outages:Q", axis=alt.Axis(title="outages", tickCount=5, tickMinStep=1))
    color = alt.Color("end:N", scale=colors(dict(_ENDS.values())), legend=None)
    chart = (
        alt.Chart(data(values))
        .mark_bar()
        .encode(
            x=x,
            y=names("error", order),
            color=color,
            order="rank:Q",
            tooltip=["error:N", "end:N", "outages:Q"],
        )
    )
    legend = tuple(Swatch(color, text) for text, color in _ENDS.values())
    return Chart(
        spec(chart, STEP * len(order)), "What outages that began with an error came to", legend
    )


_VAIN_COLUMNS = (
    Column("group", lambda row: shown(row["group"]), is_number=False),
    Column("error", lambda row: shown(row["error"]), is_number=False),
    Column("outages", lambda row: count(row["outages"])),
    Column("given up", lambda row: count(row["given_up"])),
    Column("recovered", lambda row: count(row["recovered"])),
    Column("first", lambda row: moment(row["first_ms"])),
    Column("last", lambda row: moment(row["last_ms"])),
)
_SOON_COLUMNS = (
    Column("group", lambda row: shown(row["group"]), is_number=False),
    Column("error", lambda row: shown(row["error"]), is_number=False),
    Column("letters given up at once", lambda row: count(row["letters"])),
    Column("outages that recovered here", lambda row: count(row["recovered_here"])),
    Column("in other groups", lambda row: count(row["recovered_elsewhere"])),
)
