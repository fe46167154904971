"""The hop by which a message came to its attempt: what its record's headers say of it."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from linear_retry.errors import DeadLetterError
from linear_retry.kafka.consumer.messages import headers_of, timestamp_ms_of
from linear_retry.records import retry_headers as names
from linear_retry.records.retry_headers import read_headers

_FIELDS = ("retry_id", "generation", "failures", "step", "replay_count")
_HEADERS = tuple(header for header in names.RETRY_HEADERS if header.field in _FIELDS)


@dataclass(frozen=True, slots=True)
class RetryHop:
    """One wait of a message in a retry topic; `step` is 0 where its record has none.

    `failures` are those before it, `waited_s` is how long the record had been in its topic when the
    attempt began: by the broker's clock and the reader's.
    """

    retry_id: str
    generation: int
    replay_count: int
    step: int
    failures: int
    waited_s: float


def hop_of(message: Any, utc_ms: Callable[[], int]) -> RetryHop | None:
    """The hop by which a message came that is attempted now; None: it is on no way through retries.

    That is so too where its headers do not say who it is: it is dead-lettered, and not attempted.
    """
    found = headers_of(message)  # made safe by the consumer before anybody gets the message
    if not found:
        return None
    contents = dict(found)
    if contents.get(names.SEND_TO) != names.RETRY.encode():
        return None
    try:
        fields = read_headers(contents, _HEADERS)
    except DeadLetterError:
        return None
    written_ms, read_ms = timestamp_ms_of(message), utc_ms()
    return RetryHop(
        fields["retry_id"],
        fields["generation"],
        fields["replay_count"] or 0,
        fields["step"] or 0,
        fields["failures"],
        0.0 if written_ms is None else (read_ms - written_ms) / 1000,
    )
