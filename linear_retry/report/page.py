"""Renders the report as one self-contained HTML page.

Text from letters is always shown as plain text: the template escapes it, the charts get it as JSON
in which no tag can begin or end, and the page's content security policy allows only our two
scripts, by their hash, and no compiled scripts or requests.
"""

import base64
import hashlib
import json
import re
from datetime import datetime
from importlib.resources import files
from typing import Any

from jinja2 import Environment, StrictUndefined
from markupsafe import Markup, escape

from linear_retry.report import delays, errors, letters, outages
from linear_retry.report.advice import advice
from linear_retry.report.section import (
    FIRST_AND_LAST,
    Grid,
    Section,
    Tables,
    count,
    count_column,
    duration,
    percent,
    records,
    shown,
    text_column,
    total,
)

_ROOM = files("linear_retry.report")
_IN_SCRIPTS = str.maketrans({each: f"\\u{ord(each):04x}" for each in "<>&\u2028\u2029"})
_CODE = re.compile(r"`([^`<>]*)`")
_ADVICE = 12


def render(
    tables: Tables, scripts: str, *, lake: str, folder: str, made_at: datetime
) -> tuple[str, int]:
    """Renders the page; also returns the number of pieces of advice. `scripts` draw the charts."""
    advices = advice(tables)
    sections = [*outages.sections(tables), *delays.section(tables), *letters.sections(tables)]
    sections += [errors.section(tables), *_events(tables)]
    drawing = _text("page.js")
    page = _template().render(
        policy=_policy(scripts, drawing),
        css=Markup(_text("page.css")),
        vega=Markup(scripts),
        drawing=Markup(drawing),
        number=Markup(' class="number"'),
        lake=shown(lake),
        made_at=f"{made_at:%Y-%m-%d %H:%M} UTC",
        tiles=_tiles(tables),
        to_do=delays.to_do(tables, lake),
        advice=advices[:_ADVICE],
        unsaid=max(0, len(advices) - _ADVICE),
        sections=sections,
        folder=folder,
        names=", ".join(tables),
    )
    return page, len(advices)


def _template() -> Any:
    # StrictUndefined: a missing name is an error, not an empty string.
    room = Environment(autoescape=True, undefined=StrictUndefined)
    room.filters |= {"in_script": _in_script, "with_code": _with_code}
    return room.from_string(_text("page.html"))


def _text(name: str) -> str:
    return _ROOM.joinpath(name).read_text("utf-8")


def _in_script(value: Any) -> Markup:
    """Returns JSON in which neither a tag nor a comment can begin."""
    text = json.dumps(value, allow_nan=False, separators=(",", ":"))
    return Markup(text.translate(_IN_SCRIPTS))


def _with_code(text: str) -> Markup:
    """Escapes the text, then marks text between backticks as code."""
    return Markup(_CODE.sub(r"<code>\1</code>", str(escape(text))))


def _policy(*scripts: str) -> str:
    """Returns the content security policy, which allows only these scripts."""
    digests = (
        base64.b64encode(hashlib.sha256(each.encode()).digest()).decode() for each in scripts
    )
    ours = " ".join(f"'sha256-{digest}'" for digest in digests)
    # Vega's charts and tooltips have inline styles, which run nothing and here fetch nothing.
    return (
        f"default-src 'none'; script-src {ours}; style-src 'unsafe-inline'; "
        "base-uri 'none'; form-action 'none'"
    )


def _tiles(tables: Tables) -> list[tuple[str, str]]:
    """Returns the numbers at the top of the page, each with its label."""
    found = []
    if "groups" in tables:
        groups = records(tables["groups"])
        number = total(groups, "outages")
        recovered = total(groups, "recovered") / number if number else None
        found += [
            (count(number), "outages"),
            (percent(recovered), "of them recovered"),
            (duration(total(groups, "blocked_s")), "blocked in all"),
            (count(total(groups, "still_open")), "still open"),
        ]
    if "letters" in tables:
        rows = records(tables["letters"])
        exhausted = total([row for row in rows if row["reason"] == "exhausted"], "letters")
        found += [
            (count(total(rows, "letters")), "dead letters"),
            (count(exhausted), "of them exhausted"),
        ]
    return found


def _events(tables: Tables) -> list[Section]:
    if "events" not in tables or tables["events"].empty:
        return []
    grid = Grid.of("By group", records(tables["events"]), _EVENT_COLUMNS, "events")
    text = "Rare events of the journal that deserve attention."
    return [Section("Other events", text, grids=(grid,))]


_EVENT_COLUMNS = (
    text_column("group"),
    text_column("event"),
    count_column("times"),
    *FIRST_AND_LAST,
)
