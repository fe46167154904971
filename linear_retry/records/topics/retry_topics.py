"""Names the retry topics: one for each distinct delay."""

from linear_retry.records.durations import delay_text, read_delay_ms

DELAY_PATTERN = r"\.[0-9]+(ms|s|m|h|d)"
"""The part after the prefix, as a POSIX regular expression."""


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
