"""Names the retry topics: one for each distinct delay."""

import re

_UNITS_MS = {"d": 86_400_000, "h": 3_600_000, "m": 60_000, "s": 1000, "ms": 1}
DELAY_PATTERN = r"\.[0-9]+(ms|s|m|h|d)"
"""The part after the prefix, as a POSIX regular expression."""
_TEXT = re.compile(r"([0-9]{1,12})(d|h|m|s|ms)")


def delay_text(delay_ms: int) -> str:
    """Formats `delay_ms` in the largest exact unit: `5m`, `90s`, `1500ms`, `1d`; `0s`.

    Different delays have different texts.
    """
    if delay_ms == 0:
        return "0s"
    unit = next(unit for unit, unit_ms in _UNITS_MS.items() if delay_ms % unit_ms == 0)
    return f"{delay_ms // _UNITS_MS[unit]}{unit}"


def read_delay_ms(text: str) -> int | None:
    """The inverse of `delay_text`; None for any other text, such as `60s`, which is `1m`."""
    found = _TEXT.fullmatch(text)
    if found is None:
        return None
    delay_ms = int(found[1]) * _UNITS_MS[found[2]]
    return delay_ms if delay_text(delay_ms) == text else None


def retry_topic(prefix: str, delay_ms: int) -> str:
    """Returns the topic of `prefix` whose records wait `delay_ms`: `orders.billing.retry.5m`."""
    return f"{prefix}.{delay_text(delay_ms)}"


def delay_of(topic: str, prefix: str | None) -> int | None:
    """Returns the milliseconds that records of `topic` wait; None: not a topic of `prefix`."""
    before, dot, text = topic.rpartition(".")
    return read_delay_ms(text) if before == prefix and dot else None


def is_retry_topic(topic: str) -> bool:
    """Whether it is named as a retry topic of any group: `orders.billing.retry.5m`."""
    before, _, text = topic.rpartition(".")
    return before.endswith("retry") and read_delay_ms(text) is not None


RETRY_SUFFIX = ".retry"


def retry_group(group: str) -> str:
    """Returns the consumer group of the retry line for the live line's group."""
    return f"{group}{RETRY_SUFFIX}"
