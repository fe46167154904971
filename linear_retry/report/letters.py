"""The sections on dead letters: times, reasons and keys."""

from collections import Counter
from typing import Any

import altair as alt

from linear_retry.report.charts import (
    AMBER,
    GREY,
    RED,
    VIOLET,
    colors,
    data,
    spec,
    stacked_bars,
    utc,
)
from linear_retry.report.section import (
    LAST,
    Chart,
    Column,
    Grid,
    Row,
    Section,
    Tables,
    count,
    count_column,
    counted,
    duration,
    moment,
    percent,
    records,
    shown,
    simple,
    text_column,
)

_ERRORS = 15
_REASONS = {
    "exhausted": ("exhausted (the strategy ran out)", AMBER),
    "permanent": ("permanent (given up at once)", RED),
    "given-up": ("given-up (by an operator)", VIOLET),
}
_OTHER = ("other reasons", GREY)
_COLORS = dict((*_REASONS.values(), _OTHER))


def sections(tables: Tables) -> list[Section]:
    """Returns the section on letters, and the one on their keys if these are shown."""
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
    legend = {text: color for text, color in _COLORS.items() if by_reason[text]}
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
            "Duplicates of a letter count once; a message that was dead-lettered again after a "
            "replay counts again.",
        ),
    )


def _reason(row: Row) -> str:
    return _REASONS.get(row["reason"], _OTHER)[0]


def _by_error(rows: list[Row]) -> dict[str, Any]:
    sums: Counter[tuple[str, str]] = Counter()
    for row in rows:
        sums[simple(row["exception_type"]), _reason(row)] += row["letters"]
    return stacked_bars(sums, _COLORS, ("exception", "reason", "letters"), most=_ERRORS)


def _over_time(rows: list[Row]) -> dict[str, Any]:
    sums: Counter[tuple[int, int, str]] = Counter()
    for row in rows:
        sums[row["from_ms"], row["until_ms"], _reason(row)] += row["letters"]
    # Stacked here: Vega-Lite does not stack bars with two ends.
    height: Counter[int] = Counter()
    values = []
    for (from_ms, until_ms, reason), number in sorted(sums.items()):
        bar = {"from_ms": from_ms, "until_ms": until_ms, "bottom": height[from_ms]}
        height[from_ms] += number
        shown_in_tip = {"reason": reason, "letters": number, "from": moment(from_ms)}
        values.append({**bar, "top": height[from_ms], **shown_in_tip})
    chart = (
        alt.Chart(data(values))
        .mark_rect()
        .encode(
            x=utc("from_ms"),
            x2="until_ms",
            y=alt.Y("bottom:Q", axis=alt.Axis(title="letters", tickCount=5, tickMinStep=1)),
            y2="top",
            color=alt.Color("reason:N", scale=colors(_COLORS), legend=None),
            tooltip=["from:N", "reason:N", "letters:Q"],
        )
    )
    return spec(chart, 180)


_COLUMNS = (
    text_column("group"),
    text_column("reason"),
    text_column("exception", "exception_type"),
    count_column("letters"),
    Column("mean failures", lambda row: f"{row['mean_failures'] or 0:.1f}"),
    Column("mean wait", lambda row: duration(row["mean_waited_s"])),
    LAST,
    text_column("latest text", "latest_text"),
)


def _keys(letters: list[Row], rows: list[Row]) -> Section:
    keys = with_share(rows, letters)
    return Section(
        "Top keys",
        "If one key has many of its group’s letters, find out first what is wrong with it.",
        grids=(Grid.of("Keys with the most dead letters", keys, _KEY_COLUMNS, "keys"),),
        notes=(
            "Keys may be personal data: `--no-keys` leaves them out of the page and its tables, "
            "with the texts of exceptions, which may quote them. 0x… are the bytes of a key that "
            "is not UTF-8.",
        ),
    )


def with_share(keys: list[Row], letters: list[Row]) -> list[Row]:
    """Adds each key's `share` of its group's letters, or None if not all of these are known."""
    of_group: Counter[str] = Counter()
    for row in letters:
        of_group[row["group"]] += row["letters"]
    return [
        {**row, "share": row["letters"] / whole if whole >= row["letters"] else None}
        for row in keys
        for whole in [of_group[row["group"]]]
    ]


_KEY_COLUMNS = (
    Column("key", lambda row: "(no key)" if row["form"] == "none" else shown(row["key"]), False),
    count_column("bytes", "size_bytes"),
    text_column("group"),
    count_column("letters"),
    Column("share of its group", lambda row: percent(row["share"])),
    count_column("kinds of exceptions", "exception_types"),
    LAST,
)
