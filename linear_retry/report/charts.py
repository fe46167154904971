"""The charts' style, for wide and narrow, light and dark pages, and the scripts that draw them."""

from collections import defaultdict
from collections.abc import Iterable, Mapping
from typing import Any

import altair as alt
import vl_convert

RED, AMBER, VIOLET, BLUE, GREY = "#cf5058", "#dd9a2e", "#8476cf", "#4b86c6", "#8b919c"
STEP = 24
INK = "currentColor"  # the page's own color, which is light on a dark page
_AUTOSIZE = {"type": "fit-x", "contains": "padding"}
_CONFIG = {
    "background": "transparent",
    "font": "system-ui, sans-serif",
    "view": {"stroke": None},
    "axis": {
        "labelColor": INK,
        "titleColor": INK,
        "labelFontSize": 12,
        "titleFontSize": 12,
        "titleFontWeight": "normal",
        "labelLimit": 130,
        "labelOverlap": True,
        "labelSeparation": 8,
        "domainColor": INK,
        "domainOpacity": 0.4,
        "tickColor": INK,
        "tickOpacity": 0.4,
        "gridColor": INK,
        "gridOpacity": 0.12,
    },
}


def spec(chart: alt.Chart | alt.LayerChart | alt.FacetChart, height: int) -> dict[str, Any]:
    """Returns the chart as Vega-Lite, as wide as its container; `height` in pixels."""
    sized = chart.properties(width="container", height=height)
    return {**sized.to_dict(), "config": _CONFIG, "autosize": _AUTOSIZE}


def data(rows: Iterable[dict[str, Any]]) -> alt.InlineData:
    # Not a DataFrame: Altair accepts only 5000 rows of one, and guesses types that we know.
    return alt.InlineData(values=list(rows))


def utc(field: str) -> alt.X:
    """Returns a time axis in UTC, as in the tables."""
    axis = alt.Axis(title=None, tickCount=6)
    return alt.X(f"{field}:T", scale=alt.Scale(type="utc"), axis=axis)


def names(field: str, order: list[str]) -> alt.Y:
    """Returns a vertical axis of names."""
    return alt.Y(f"{field}:N", sort=order, axis=alt.Axis(title=None, domain=False, ticks=False))


def colors(by_name: dict[str, str]) -> alt.Scale:
    return alt.Scale(domain=list(by_name), range=list(by_name.values()))


def stacked_bars(
    numbers: Mapping[tuple[str, str], float],
    by_part: dict[str, str],
    fields: tuple[str, str, str],
    *,
    most: int,
) -> dict[str, Any]:
    """Returns stacked bars of the `most` largest names; `by_part` has order and color of the parts.

    `numbers` are by name and part; `fields` are the names of the three columns.
    """
    name, part, number = fields
    totals: defaultdict[str, float] = defaultdict(float)
    for (each, _), size in numbers.items():
        totals[each] += size
    order = sorted(totals, key=lambda each: -totals[each])[:most]
    rank = {each: at for at, each in enumerate(by_part)}
    rows = [
        {name: each, part: kind, "rank": rank[kind], number: size}
        for (each, kind), size in numbers.items()
        if size and each in order
    ]
    chart = alt.Chart(data(rows)).mark_bar()
    encoded = chart.encode(
        x=alt.X(f"{number}:Q", axis=alt.Axis(title=number, tickCount=5, tickMinStep=1)),
        y=names(name, order),
        color=alt.Color(f"{part}:N", scale=colors(by_part), legend=None),
        order="rank:Q",
        tooltip=[f"{name}:N", f"{part}:N", alt.Tooltip(f"{number}:Q", format=",.2~f")],
    )
    return spec(encoded, STEP * len(order))


def bundle() -> str:
    """Vega, Vega-Lite and vega-embed as one script, which defines `vegaEmbed`.

    It takes seconds. Contains nothing that would end a <script>.
    """
    version = alt.SCHEMA_VERSION.removeprefix("v").rpartition(".")[0]
    script = vl_convert.javascript_bundle("window.vegaEmbed = vegaEmbed;", version)
    # Even inside a JavaScript string this would end the element.
    return script.replace("</script", "<\\/script").replace("\r\n", "\n")
