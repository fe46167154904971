"""Formats numbers, times and untrusted text for people."""

from datetime import UTC, datetime, timedelta
from typing import Any

NOTHING = "–"
_LONGEST = 120
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_UNITS = ((86_400.0, "d"), (3600.0, "h"), (60.0, "min"), (1.0, "s"))


def shown(text: Any) -> str:
    """Returns `text` as `printable` does, truncated."""
    if text is None:
        return NOTHING
    line = printable(str(text)[: _LONGEST + 1])
    return line if len(line) <= _LONGEST else line[: _LONGEST - 1] + "…"


def printable(text: str) -> str:
    """Returns `text` in one line, without characters that move or hide others.

    A name with marks that change the writing direction would read as another one.
    """
    return "".join(each if each.isprintable() else "\ufffd" for each in text)


def simple(error_type: Any) -> str:
    """Returns an exception's type without its module."""
    return shown(error_type).rpartition(".")[2] or shown(error_type)


def count(number: Any) -> str:
    return NOTHING if number is None else f"{round(number):,}"


def counted(number: Any, noun: str) -> str:
    """`1 outage`, `1,200 outages`."""
    return f"{count(number)} {noun}{'' if number == 1 else 's'}"


def percent(share: Any) -> str:
    """Formats a share in per cent; never 0 or 100 unless it is exactly that."""
    if share is None:
        return NOTHING
    if 0 < share < 0.001:
        return "< 0.1%"
    if 0.999 < share < 1:
        return "> 99.9%"
    return f"{share * 100:.1f}%" if 0 < share < 0.01 or 0.99 < share < 1 else f"{share * 100:.0f}%"


def duration(seconds: Any) -> str:
    """Formats a time with two or three digits, in the largest unit that gives at least 2."""
    if seconds is None:
        return NOTHING
    for size_s, unit in _UNITS:
        if seconds >= 2 * size_s or (unit == "s" and seconds >= 1):
            number = seconds / size_s
            return f"{number:,.0f} {unit}" if number >= 10 else f"{number:.2g} {unit}"
    return f"{seconds * 1000:.0f} ms"


def signed(seconds: Any) -> str:
    """Formats a time that may be below 0, as a loss is."""
    return f"−{duration(-seconds)}" if seconds is not None and seconds < 0 else duration(seconds)


def between(low_s: Any, high_s: Any) -> str:
    """`12 s to 3.0 min`; `more than 12 s` without an upper bound."""
    if high_s is None:
        return NOTHING if low_s is None else f"more than {duration(low_s)}"
    return f"{signed(low_s)} to {signed(high_s)}"


def moment(at_ms: Any) -> str:
    """Formats a time in UTC, to the minute."""
    if at_ms is None:
        return NOTHING
    return f"{_EPOCH + timedelta(milliseconds=int(at_ms)):%Y-%m-%d %H:%M} UTC"
