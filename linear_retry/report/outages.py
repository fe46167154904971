"""The sections on outages: over time, their durations, and the time blocked."""

import math
from typing import Any

import altair as alt

from linear_retry.report.charts import (
    AMBER,
    BLUE,
    GREY,
    INK,
    RED,
    STEP,
    data,
    names,
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
    between,
    count,
    count_column,
    counted,
    duration,
    moment,
    percent,
    records,
    shown,
    text_column,
)

_GROUPS = 20
_CURVES = 12
_TICKS_S = (0.01, 0.1, 1, 10, 60, 600, 3600, 6 * 3600, 86_400, 7 * 86_400)
_PARTS = {
    "down_s": ("up to the last attempt that failed", RED),
    "unsure_s": ("from there to the first that succeeded", AMBER),
    "other_s": ("not known to have recovered", GREY),
}
_MISSING = Section(
    "Outages",
    "This lake has no outages yet: run `linear-retry spark episodes`, once a journal is ingested.",
)


def sections(tables: Tables) -> list[Section]:
    """Returns the three sections, or one that says that there are no outages."""
    if "groups" not in tables or tables["groups"].empty:
        return [_MISSING]
    groups = records(tables["groups"])
    curves, ends = records(tables["durations"]), records(tables["duration_quantiles"])
    return [
        _over_time(groups, records(tables["outages_over_time"])),
        _durations(groups, curves, ends),
        _blocked(groups),
    ]


def _over_time(groups: list[Row], rows: list[Row]) -> Section:
    largest = groups[:_GROUPS]
    chosen = {row["group"] for row in largest}
    most = max(rows, key=lambda row: row["blocked_s"])
    stretch = duration((most["until_ms"] - most["from_ms"]) / 1000)
    chart = Chart(
        _heat(
            [row for row in rows if row["group"] in chosen], [shown(r["group"]) for r in largest]
        ),
        "Outages by group and time",
        caption=f"A cell is {stretch}. The stronger its color, on a logarithmic scale, the longer "
        f"the outages that began in it were; at most {duration(most['blocked_s'])}.",
    )
    begun = sum(row["outages"] for row in groups)
    return Section(
        "Outages over time",
        f"{counted(begun, 'outage')} in {counted(len(groups), 'group')}, from "
        f"{moment(min(row['first_ms'] for row in groups))} to "
        f"{moment(max(row['last_ms'] for row in groups))}.{_left_out(groups)}",
        (chart,),
        (Grid.of("Outages of each group", groups, _COLUMNS, "groups"),),
        (
            "What several members, topics and partitions of a group saw at the same time is one "
            "outage. “Members” is how many saw one at the most.",
        ),
    )


def _left_out(groups: list[Row]) -> str:
    return (
        f" The chart shows the {_GROUPS} that were blocked longest."
        if len(groups) > _GROUPS
        else ""
    )


def _heat(rows: list[Row], order: list[str]) -> dict[str, Any]:
    values = [
        {
            **{name: row[name] for name in ("from_ms", "until_ms", "outages", "blocked_s")},
            "group": shown(row["group"]),
            "from": moment(row["from_ms"]),
            "open for": duration(row["blocked_s"]),
        }
        for row in rows
    ]
    chart = (
        alt.Chart(data(values))
        .mark_rect(color=BLUE)
        .encode(
            x=utc("from_ms"),
            x2="until_ms",
            y=names("group", order),
            opacity=alt.Opacity(
                "blocked_s:Q", scale=alt.Scale(type="symlog", range=[0.15, 1]), legend=None
            ),
            tooltip=["group:N", "from:N", "outages:Q", "open for:N"],
        )
    )
    return spec(chart, STEP * len(order))


_COLUMNS = (
    text_column("group"),
    count_column("outages"),
    count_column("members"),
    count_column("recovered"),
    count_column("given up", "given_up"),
    count_column("left the line", "left_line"),
    count_column("still open", "still_open"),
    count_column("failed attempts", "failed_attempts"),
    Column("open for", lambda row: duration(row["blocked_s"])),
    LAST,
)


def _durations(groups: list[Row], curves: list[Row], ends: list[Row]) -> Section:
    title = "How long outages last"
    if not curves:
        return Section(title, "No outage has known bounds of its duration.")
    by_group: dict[str, list[Row]] = {}
    for row in curves:
        by_group.setdefault(row["group"], []).append(row)
    order = [row["group"] for row in groups if row["group"] in by_group]
    charts = tuple(
        Chart(
            _curve(by_group[group], [row for row in ends if row["group"] == group]),
            shown(group),
            caption=_quantiles([row for row in ends if row["group"] == group]),
            is_small=True,
        )
        for group in order[:_CURVES]
    )
    ranked = sorted(ends, key=lambda row: (order.index(row["group"]), row["ended"]))
    more = len(order) > _CURVES
    drawn = f" The charts show the {_CURVES} that were blocked longest." if more else ""
    return Section(
        title,
        f"The share of outages that last longer than a time, by group.{drawn}",
        charts,
        (Grid.of("When outages have ended", ranked, _END_COLUMNS, "duration_quantiles"),),
        (
            "The exact duration of an outage is not known: only that it ended between the last "
            "attempt that failed and the first that succeeded. The line is a likely "
            "distribution for these bounds (Turnbull’s estimate, smoothed), the band its 95% "
            "confidence interval (bootstrap; outages that overlap are one).",
            "Outages that were given up, or whose end is not recorded, lasted longer than is "
            "known: so the line may end above zero.",
        ),
    )


def _quantiles(ends: list[Row]) -> str:
    known = (
        f"{counted(ends[0]['outages'], 'outage')}, {count(ends[0]['known_end'])} with a known end"
    )
    each = (f"{_name(row)} {_end(row)}" for row in sorted(ends, key=lambda row: row["ended"]))
    return f"{known}. {', '.join(each)}."


def _end(row: Row) -> str:
    if row["after_s"] is None:
        return "not known"
    return f"{duration(row['after_s'])} ({between(row['low_s'], row['high_s'])})"


def _name(row: Row) -> str:
    return f"p{100 * row['ended']:g}"


def _curve(rows: list[Row], ends: list[Row]) -> dict[str, Any]:
    """Returns the curve with its quantiles, on an axis of its own: outages differ by magnitudes."""
    values = [{**row, "group": None, "after": duration(row["after_s"])} for row in rows]
    x = _logarithmic([row["after_s"] for row in rows])
    share = alt.Axis(title="not ended", format="%", tickCount=5)
    shares = (alt.Tooltip(f"{name}:Q", format=".1%") for name in ("lasting", "low", "high"))
    base = alt.Chart(data(values)).encode(x=x, tooltip=["after:N", *shares])
    y = alt.Y("lasting:Q", scale=alt.Scale(domain=[0, 1]), axis=share)
    band = base.mark_area(color=BLUE, opacity=0.25).encode(
        y=alt.Y("low:Q", scale=alt.Scale(domain=[0, 1]), axis=share), y2="high"
    )
    line = base.mark_line(color=BLUE, strokeWidth=2).encode(y=y)
    return spec(alt.layer(band, line, *_marks(ends, x, y)), 150)


def _marks(ends: list[Row], x: alt.X, y: alt.Y) -> tuple[alt.Chart, alt.Chart]:
    """Returns a point and a name for each known quantile."""
    values = [
        {"after_s": row["after_s"], "lasting": 1 - row["ended"], "name": _name(row)}
        for row in ends
        if row["after_s"] is not None
    ]
    base = alt.Chart(data(values)).encode(x=x, y=y)
    names = base.mark_text(align="left", dx=5, dy=-7, fontSize=11, color=INK).encode(text="name:N")
    return base.mark_point(color=BLUE, filled=True, size=40, opacity=1), names


def _logarithmic(times_s: list[float]) -> alt.X:
    ticks = [tick for tick in _TICKS_S if times_s[0] <= tick <= times_s[-1]]
    labels = ", ".join(f"'{tick}': '{duration(tick)}'" for tick in ticks)
    axis = alt.Axis(
        title="after", values=ticks, labelExpr=f"({{{labels}}})[datum.value]", grid=True
    )
    scale = alt.Scale(type="log", domain=[times_s[0], times_s[-1]], nice=False, clamp=True)
    return alt.X("after_s:Q", scale=scale, axis=axis)


_END_COLUMNS = (
    text_column("group"),
    count_column("outages"),
    count_column("with a known end", "known_end"),
    Column("quantile", _name),
    Column("ended within", lambda row: duration(row["after_s"])),
    Column("95% sure", lambda row: between(row["low_s"], row["high_s"])),
)


def _blocked(groups: list[Row]) -> Section:
    shares = {name: math.fsum(row[name] for row in groups) for name in _PARTS}
    whole = math.fsum(row["blocked_s"] for row in groups)
    unsure = percent(shares["unsure_s"] / whole) if whole else percent(0.0)
    return Section(
        "Time blocked",
        f"Circuits were open for {duration(whole)} in all. At most {unsure} of that was waiting "
        "for a dependency that was already back: shorter delays could save no more."
        f"{_left_out(groups)}",
        (
            Chart(
                _bars(groups),
                "Time blocked by group",
                dict(_PARTS.values()),
            ),
        ),
        notes=(
            "An outage counts once, however many members and partitions it blocked, from its "
            "first failure to the last circuit's end, or the last event if no end is recorded.",
        ),
    )


def _bars(groups: list[Row]) -> dict[str, Any]:
    largest_s = max(row["blocked_s"] for row in groups)
    units = ((3600, "hours"), (60, "minutes"), (0, "seconds"))
    size_s, unit = next(each for each in units if largest_s >= 2 * each[0])
    times = {
        (shown(row["group"]), text): row[name] / max(size_s, 1)
        for row in groups
        for name, (text, _) in _PARTS.items()
    }
    fields = ("group", "part", f"{unit} open")
    return stacked_bars(times, dict(_PARTS.values()), fields, most=_GROUPS)
