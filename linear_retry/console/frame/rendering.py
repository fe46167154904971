"""Renders the templates; every text in them is escaped."""

import hashlib
from collections.abc import Collection, Sequence
from functools import cache
from http import HTTPStatus
from importlib.resources import files
from typing import Any

from fastapi import Request
from fastapi.responses import HTMLResponse
from jinja2 import Environment, PackageLoader, StrictUndefined

import linear_retry
from linear_retry.console.decoding.views import short_text, visible
from linear_retry.console.frame.page import Page
from linear_retry.console.frame.services import Services
from linear_retry.journal.group_state import Member
from linear_retry.journal.standing import Lag, Lags
from linear_retry.records import printable
from linear_retry.records.durations import span_text
from linear_retry.retry.clock import now_ms
from linear_retry.scope import partitions_text
from linear_retry.web.security.authentication import Actor

_PACKAGE = "linear_retry.console"
STATIC = files(_PACKAGE) / "static"


class Renderer:
    """Renders the pages of one console."""

    def __init__(self, services: Services) -> None:
        self._services = services
        self.navigation: Sequence[Page] = ()
        self._environment = Environment(
            loader=PackageLoader(_PACKAGE),
            autoescape=True,
            undefined=StrictUndefined,
            trim_blocks=True,
            lstrip_blocks=True,
        )
        self._environment.filters |= {
            "moment": printable.moment,
            "exact_moment": printable.exact_moment,
            "one_line": printable.one_line,
            "in_one_line": printable.in_one_line,
            "span": span_text,
            "partitions": partitions_text,
            "counted": counted,
            "short_text": short_text,
            "visible": visible,
            "anchor": anchor,
            "iso": iso,
            "lag": member_lag,
            "total_lag": total_lag,
        }
        self._environment.globals |= {
            "version": linear_retry.__version__,
            "settings": services.settings,
            "static": _address,
        }

    def page(
        self, request: Request, template: str, status: int = HTTPStatus.OK, **values: Any
    ) -> HTMLResponse:
        """Answers with a page. Its template has `values`, who asks, the path and the time."""
        return HTMLResponse(self.text(request, template, **values), status)

    def text(self, request: Request, template: str, **values: Any) -> str:
        """Renders a page, or a part of one."""
        actor: Actor | None = getattr(request.state, "actor", None)
        common = {
            "actor": actor,
            "may_change": self._services.may_change(actor),
            "sees_values": self._services.sees_values(actor),
            "navigation": () if actor is None else self.navigation,
            "path": request.scope["path"],
            "now_ms": now_ms(),
            "change": None if actor is None else self._change(request),
            "unwritten": None if actor is None else self._services.state.trouble,
        }
        return self._environment.get_template(template).render(common | values)

    def _change(self, request: Request) -> object:
        """What came of the form that led here."""
        number = request.query_params.get("change", "")
        is_one = number.isascii() and number.isdigit() and len(number) < 19
        return self._services.audit.change(int(number)) if is_one else None


def counted(number: int, one: str, many: str | None = None) -> str:
    """Formats a number with its noun: 1 letter, 1,204 letters."""
    return f"{number:,} {one if number == 1 else many or f'{one}s'}"


def anchor(text: str, kind: str) -> str:
    """Returns an id that stays the same for this text: elements with one keep their focus."""
    return f"{kind}-{hashlib.sha256(text.encode(errors='replace')).hexdigest()[:10]}"


def iso(at_ms: int) -> str:
    """Formats a time for programs."""
    return printable.moment(at_ms).replace(" ", "T")


def total_lag(lags: Lags | None) -> str:
    """Formats the lag of a group, as far as it is known."""
    return _lag_of((lags or {}).values())


def member_lag(member: Member, lags: Lags | None) -> str:
    """Formats the lag of a member's partitions."""
    found = [lags[each] for each in member.partitions if each in lags] if lags else []
    return _lag_of(found) if member.partitions else "-"


def _lag_of(lags: Collection[Lag | None]) -> str:
    known = [lag for lag in lags if lag is not None]
    if not known:
        return "unknown"
    at_least = "at least " if len(known) < len(lags) else ""
    total, others = sum(lag.total for lag in known), sum(lag.others for lag in known)
    besides = "" if others == total else f", {others:,} besides held keys"
    return f"{at_least}{total:,}{besides}"


@cache
def _address(name: str) -> str:
    """The address of a static file. It changes with the file, which browsers keep for a year."""
    digest = hashlib.sha256((STATIC / name).read_bytes()).hexdigest()[:12]
    return f"/static/{name}?{digest}"
