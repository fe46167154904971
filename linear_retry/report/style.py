"""How do the charts look, on a wide page and a narrow one, in light and in dark?"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import altair as alt

RED, AMBER, GREEN, VIOLET, BLUE, GREY = (
    *("#cf5058", "#dd9a2e", "#3f9a6c"),
    *("#8476cf", "#4b86c6", "#8b919c"),
)
STEP = 24
_INK = "currentColor"  # the page's own, which is light where the page is dark
_AUTOSIZE = {"type": "fit-x", "contains": "padding"}
_CONFIG = {
    "background": "transparent",
    "font": "system-ui, sans-serif",
    "view": {"stroke": None},
    "axis": {
        "labelColor": _INK,
        "titleColor": _INK,
        "labelFontSize": 12,
        "titleFontSize": 12,
        "titleFontWeight": "normal",
        "labelLimit": 130,
        "labelOverlap": True,
        "labelSeparation": 8,
        "domainColor": _INK,
        "domainOpacity": 0.4,
        "tickColor": _INK,
        "tickOpacity": 0.4,
        "gridColor": _INK,
        "gridOpacity": 0.12,
    },
}


def spec(chart: alt.Chart | alt.LayerChart | alt.FacetChart, height: int) -> dict[str, Any]:
    """Vega-Lite of it, as wide as its place on the page; `height` in pixels."""
    sized = chart.properties(width="container", height=height)
    return {**sized.to_dict(), "config": _CONFIG, "autosize": _AUTOSIZE}


def data(rows: Iterable[dict[str, Any]]) -> alt.InlineData:
    # Not a frame: of that Altair takes 5000 rows, and guesses types that we know.
    return alt.InlineData(values=list(rows))


def utc(field: str) -> alt.X:
    """An axis of time: the reader's own time zone would tell another day than the tables."""
    axis = alt.Axis(title=None, tickCount=6)
    return alt.X(f"{field}:T", scale=alt.Scale(type="utc"), axis=axis)


def names(field: str, order: list[str]) -> alt.Y:
    """Names one below the other."""
    return alt.Y(f"{field}:N", sort=order, axis=alt.Axis(title=None, domain=False, ticks=False))


def colors(by_name: dict[str, str]) -> alt.Scale:
    return alt.Scale(domain=list(by_name), range=list(by_name.values()))
