"""Durations as texts: `1h30m` as in a strategy file, and `90s` as in the name of a retry topic."""

import re

MINUTE_MS, HOUR_MS, DAY_MS = 60_000, 3_600_000, 86_400_000
UNITS_MS = {"d": DAY_MS, "h": HOUR_MS, "m": MINUTE_MS, "s": 1000, "ms": 1}

# The form of Go's Duration.String(), plus days: each unit at most once, the largest first. The
# number of digits is bounded so that no sum of parts overflows, and the schema has the same rule.
_NUMBER = r"([0-9]{1,9}(?:\.[0-9]{1,9})?)"
_DURATION = re.compile("(?=[0-9])" + "".join(f"(?:{_NUMBER}{unit})?" for unit in UNITS_MS))
_DELAY = re.compile(rf"([0-9]{{1,12}})({'|'.join(UNITS_MS)})")

DURATION_REMEDY = (
    'write it as "2d", "1h30m", "30s" or "250ms": '
    "d, h, m, s, ms, each once and in this order, without sign or spaces"
)


def duration_ms(text: str) -> float | None:
    """Parses a duration such as `1h30m`, without an upper limit; None if it is not a duration."""
    match = _DURATION.fullmatch(text)
    if match is None:
        return None
    parts = zip(match.groups(default="0"), UNITS_MS.values(), strict=True)
    return sum(float(number) * unit_ms for number, unit_ms in parts)


def duration_text(whole_ms: int) -> str:
    """Formats `whole_ms` as in a strategy file, without days: `1h30m`, `250ms`, `0s`."""
    rest_ms, written = whole_ms, ""
    for unit, unit_ms in UNITS_MS.items():
        if unit != "d":
            count, rest_ms = divmod(rest_ms, unit_ms)
            written += f"{count}{unit}" if count else ""
    return written or "0s"


def span_text(length_ms: int) -> str:
    """Formats a duration to the second; a longer one to the minute or the hour."""
    unit_ms = 1000 if length_ms < HOUR_MS else MINUTE_MS if length_ms < DAY_MS else HOUR_MS
    return duration_text(max(length_ms, 0) // unit_ms * unit_ms)


def delay_text(delay_ms: int) -> str:
    """Formats `delay_ms` in the largest exact unit: `5m`, `90s`, `1500ms`, `1d`; `0s`.

    Different delays have different texts.
    """
    if delay_ms == 0:
        return "0s"
    unit = next(unit for unit, unit_ms in UNITS_MS.items() if delay_ms % unit_ms == 0)
    return f"{delay_ms // UNITS_MS[unit]}{unit}"


def read_delay_ms(text: str) -> int | None:
    """The inverse of `delay_text`; None for any other text, such as `60s`, which is `1m`."""
    found = _DELAY.fullmatch(text)
    if found is None:
        return None
    delay_ms = int(found[1]) * UNITS_MS[found[2]]
    return delay_ms if delay_text(delay_ms) == text else None
