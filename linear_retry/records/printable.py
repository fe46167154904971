"""Makes untrusted texts, and Kafka's timestamps, safe to print."""

from datetime import UTC, datetime
from functools import lru_cache

_CHARACTERS = 200
_FIRST_MS, _LAST_MS = -62_135_596_800_000, 253_402_300_799_999  # the years 1 to 9999


def lines(text: str) -> list[str]:
    """Splits `text` into lines, each safe to print."""
    return [in_one_line(line) for line in text.split("\n")]


def moment(timestamp_ms: int) -> str:
    """Formats a Kafka timestamp in UTC, to the second."""
    if timestamp_ms == -1:
        return "-"
    if not _FIRST_MS <= timestamp_ms <= _LAST_MS:
        return f"{timestamp_ms} ms"
    return _second(timestamp_ms // 1000)


def exact_moment(timestamp_ms: int) -> str:
    """Formats a Kafka timestamp in UTC, to the millisecond."""
    if not _FIRST_MS <= timestamp_ms <= _LAST_MS or timestamp_ms == -1:
        return moment(timestamp_ms)
    return f"{_second(timestamp_ms // 1000)[:-1]}.{timestamp_ms % 1000:03}Z"


@lru_cache(maxsize=4096)
def _second(at_s: int) -> str:
    return f"{datetime.fromtimestamp(at_s, UTC).isoformat(' ')[:19]}Z"


def one_line(text: str) -> str:
    """Returns `text` for a table cell: short, without control characters."""
    return in_one_line(cut(text))


def cut(text: str) -> str:
    """Truncates `text` for a table cell."""
    return text if len(text) <= _CHARACTERS else text[: _CHARACTERS - 1] + "…"


def in_one_line(text: str) -> str:
    """Replaces each control character in untrusted `text` by a space."""
    return text if text.isprintable() else "".join(c if c.isprintable() else " " for c in text)
