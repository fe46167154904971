"""Reads the forms that select messages and dead letters of a store."""

from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any

from linear_retry.errors import LinearRetryError
from linear_retry.records.retry_headers import INT64_MAX
from linear_retry.store.listing.filters import DeadLetterFilter, MessageFilter, Place
from linear_retry.store.records import Service

_TEXTS = {"destination": "destination", "group": "group_id", "id": "retry_id", "error": "error"}
_TIMES = {"since": "since_ms", "until": "until_ms"}

FIELDS = (*_TEXTS, *_TIMES, "key", "held", "reason")
"""The names of a form's fields; an empty one selects everything."""


class FormError(LinearRetryError):
    """A field has something that it cannot mean."""


def message_filter(service: Service, form: Mapping[str, str]) -> MessageFilter:
    """Returns which messages a form selects. Raises `FormError`."""
    held = True if form.get("held") else None
    return MessageFilter(service=service, **_common(form), is_held=held)


def dead_letter_filter(service: Service, form: Mapping[str, str]) -> DeadLetterFilter:
    """Returns which dead letters a form selects. Raises `FormError`."""
    return DeadLetterFilter(service=service, **_common(form), reason=form.get("reason") or None)


def given(form: Mapping[str, str]) -> dict[str, str]:
    """Returns the fields that select something, for links that keep them."""
    return {name: form[name] for name in FIELDS if form.get(name)}


def place(text: str) -> Place | None:
    """Reads where a page begins; empty is the first page. Raises `FormError`."""
    if not text:
        return None
    time_ms, _, number = text.partition(".")
    return Place(number_of(time_ms), number_of(number))


def place_text(found: Place) -> str:
    """Writes where the next page begins."""
    return f"{found.time_ms}.{found.id}"


def number_of(text: str) -> int:
    """Reads a number from 0 to 2^63-1. Raises `FormError`."""
    if text.isascii() and text.isdecimal() and len(text) < 20 and int(text) <= INT64_MAX:
        return int(text)
    raise FormError(f"{text[:40]!r} is no number; follow the links of the page")


def time_ms(text: str) -> int:
    """Reads a time as `2026-11-21T10:00`, UTC unless it says otherwise. Raises `FormError`."""
    try:
        moment = datetime.fromisoformat(text.strip())
        aware = moment.replace(tzinfo=UTC) if moment.tzinfo is None else moment
        found = round(aware.timestamp() * 1000)
    except (ValueError, OverflowError):
        found = -1
    if found < 0:
        raise FormError(f"{text[:40]!r} is not a time; write it as 2026-11-21T10:00, in UTC")
    return found


def _common(form: Mapping[str, str]) -> dict[str, Any]:
    """The fields that both filters have."""
    texts = {field: form.get(name) or None for name, field in _TEXTS.items()}
    times = {field: time_ms(form[name]) for name, field in _TIMES.items() if form.get(name)}
    key = form["key"].encode() if form.get("key") else None
    return {**texts, **times, "key": key}
