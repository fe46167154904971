"""Which messages were given up: when, why, and of which keys?"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from typing import Any

import altair as alt

from linear_retry.report.section import Chart, Column, Grid, Row, Section, Swatch, Tables, records
from linear_retry.report.style import AMBER, GREY, RED, STEP, VIOLET, colors, data, names, spec, utc
from linear_retry.report.words import count, counted, duration, moment, percent, shown, simple

_ERRORS = 15
_REASONS = {
    "exhausted": ("exhausted (the strategy ran out)", AMBER),
    "permanent": ("permanent (given up at once)", RED),
    "given-up": ("given-up (by an operator)", VIOLET),
}
_OTHER = ("other reasons", GREY)


def sections(tables: Tables) -> list[Section]:
    """Letters, and their keys where these are to be seen."""
    if "letters" not in tables or tables["letters"].empty:
        missing = "This lake has no dead letters: none were sent, or none were ingested."
        return [Section("Dead letters", missing)]
    rows = records(tables["letters"])
    found = [_letters(rows, records(tables["letters_over_time"]))]
    if "keys" in tables:
        found.append(_keys(rows, records(tables["keys"])))
    return found


def _letters(rows: list[Row], over_time: list[Row]) -> Section:
    by_reason: Counter[str] = Counter()
    for row in rows:
        by_reason[_reason(row)] += row["letters"]
    legend = tuple(
        Swatch(color, text) for text, color in (*_REASONS.values(), _OTHER) if by_reason[text]
    )
    parts = ", ".join(f"{count(number)} {text}" for text, number in by_reason.most_common())
    charts = [
        Chart(_by_error(rows), "Dead letters by exception and reason", legend),
    ]
    if over_time:
        charts.append(Chart(_over_time(over_time), "Dead letters over time, by reason"))
    return Section(
        "Dead letters",
        f"{counted(by_reason.total(), 'letter')}: {parts}.",
        tuple(charts),
        (Grid.of("Dead letters by group, reason and exception", rows, _COLUMNS, "letters"),),
        (
            "A letter that is in the topic twice counts once; one that died again after a replay "
            "counts again.",
        ),
    )


def _reason(row: Row) -> str:
    return _REASONS.get(row["reason"], _OTHER)[0]


def _color() -> alt.Color:
    scale = colors(dict((*_REASONS.values(), _OTHER)))
    return alt.Color("reason:N", scale=scale, legend=None)


def _by_error(rows: list[Row]) -> dict[str, Any]:
    """Of an exception's type the last part of its name, or all of it where that is not clear."""
    kinds = {row["exception_type"] for row in rows}
    alike = Counter(simple(kind) for kind in kinds)
    label = {kind: simple(kind) if alike[simple(kind)] == 1 else shown(kind) for kind in kinds}
    sums: Counter[tuple[str, str]] = Counter()
    for row in rows:
        sums[label[row["exception_type"]], _reason(row)] += row["letters"]
    by_label: Counter[str] = Counter()
    for (name, _), number in sums.items():
        by_label[name] += number
    order = [name for name, _ in by_label.most_common(_ERRORS)]
    values = [
        {"exception": name, "reason": reason, "letters": number}
        for (name, reason), number in sums.items()
        if name in order
    ]
    chart = (
        alt.Chart(data(values))
        .mark_bar()
        .encode(
            x=alt.X("letters:Q", axis=alt.Axis(title="letters", tickCount=5, tickMinStep=1)),
            y=names("exception", order),
            color=_color(),
            tooltip=["exception:N", "reason:N", "letters:Q"],
        )
    )
    return spec(chart, STEP * len(order))


def _over_time(rows: list[Row]) -> dict[str, Any]:
    sums: Counter[tuple[int, int, str]] = Counter()
    for row in rows:
        sums[row["from_ms"], row["until_ms"], _reason(row)] += row["letters"]
    # Put on one another here: Vega-Lite stacks no bars that have two ends.
    height: Counter[int] = Counter()
    values = []
    for (from_ms, until_ms, reason), number in sorted(sums.items()):
        bar = {"from_ms": from_ms, "until_ms": until_ms, "bottom": height[from_ms]}
        height[from_ms] += number
        told = {"reason": reason, "letters": number, "from": moment(from_ms)}
        values.append({**bar, "top": height[from_ms], **told})
    chart = (
        alt.Chart(data(values))
        .mark_rect()
        .encode(
            x=utc("from_ms"),
            x2="until_ms",
            y=alt.Y("bottom:Q", axis=alt.Axis(title="letters", tickCount=5, tickMinStep=1)),
            y2="top",
            color=_color(),
            tooltip=["from:N", "reason:N", "letters:Q"],
        )
    )
    return spec(chart, 180)


_COLUMNS = (
    Column("group", lambda row: shown(row["group"]), is_number=False),
    Column("reason", lambda row: shown(row["reason"]), is_number=False),
    Column("exception", lambda row: shown(row["exception_type"]), is_number=False),
    Column("letters", lambda row: count(row["letters"])),
    Column("mean failures", lambda row: f"{row['mean_failures'] or 0:.1f}"),
    Column("mean wait", lambda row: duration(row["mean_waited_s"])),
    Column("last", lambda row: moment(row["last_ms"])),
    Column("its latest text", lambda row: shown(row["latest_text"]), is_number=False),
)


def _keys(letters: list[Row], rows: list[Row]) -> Section:
    told = with_share(rows, letters)
    return Section(
        "Top keys",
        _most(told),
        grids=(Grid.of("Keys with the most dead letters", told, _KEY_COLUMNS, "keys"),),
        notes=(
            "Keys may be personal data: `--no-keys` makes the page and its tables without them, "
            "and without the texts of exceptions, which may quote them. 0x… are the bytes of a key "
            "that is no UTF-8.",
        ),
    )


def with_share(keys: list[Row], letters: list[Row]) -> list[Row]:
    """Each key with its `share` of its group's letters, or None where these are not all known."""
    of_group: Counter[str] = Counter()
    for row in letters:
        of_group[row["group"]] += row["letters"]
    return [
        {**row, "share": row["letters"] / whole if whole >= row["letters"] else None}
        for row in keys
        for whole in [of_group[row["group"]]]
    ]


def _most(rows: Iterable[Row]) -> str:
    named = [row for row in rows if row["form"] != "none"]
    if not named:
        return "No letter has a key."
    first = named[0]
    return (
        f"The key with the most letters has {count(first['letters'])}, "
        f"{percent(first['share'])} of those of group {shown(first['group'])}."
    )


_KEY_COLUMNS = (
    Column("key", lambda row: "(no key)" if row["form"] == "none" else shown(row["key"]), False),
    Column("bytes", lambda row: count(row["size_bytes"])),
    Column("group", lambda row: shown(row["group"]), is_number=False),
    Column("letters", lambda row: count(row["letters"])),
    Column("share of its group", lambda row: percent(row["share"])),
    Column("kinds of exceptions", lambda row: count(row["exception_types"])),
    Column("last", lambda row: moment(row["last_ms"])),
)
