"""Lets a handler set a minimum wait, in any form that a server may send."""

import math
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from email.utils import parsedate_to_datetime
from typing import Any, Protocol, Self, TypeAlias
from urllib.parse import urlsplit

MAX_RETRY_AFTER_S = 3600.0

When: TypeAlias = float | str | datetime | timedelta | None


class Response(Protocol):
    """A response of httpx, requests, aiohttp or urllib."""

    @property
    def headers(self) -> Any: ...


class RetryAfter(Exception):  # noqa: N818  (a request of the handler's, not an error of ours)
    """Raised by a handler: a transient error with a minimum wait, for this attempt only.

    Counts as a failure; the delay is `max(seconds, the strategy's)`. For HTTP 429 and 503. `when`
    is the value of a `Retry-After` header, seconds or an HTTP date, as text; or a number of
    seconds, a `timedelta`, a `datetime` (without a zone: local time), or None: the strategy alone
    decides. Values are clamped to 0 to 3600 s, so a time in the past is 0. A wait beyond the
    strategy's `max_elapsed` is not begun: the message is exhausted.

    The constructor never raises: a `ValueError` would look like the handler's own, a permanent
    error, and dead-letter a message because of an outage. An unreadable value counts as None.
    `seconds` is the minimum wait from the moment of construction: 0 to 3600. `answer` is what
    `from_response` has read: status, reason and host, in one line.
    """

    __module__ = "linear_retry"  # its public name, for logs and dead letters
    seconds: float = 0.0  # for a subclass that does not call this __init__
    answer: str = ""

    def __init__(self, when: When = None, *args: object) -> None:
        super().__init__(when, *args)
        self.seconds = _wait_s(when)

    @classmethod
    def from_response(cls, response: Response) -> Self:
        """Reads the `Retry-After` header of a response; without that header, `when` is None.

        Its text says what has failed: the response's status and reason, and the host. Not the rest
        of the URL, which may have a secret in it.
        """
        error = cls(_header(response))
        error.answer = _read(lambda: _answer(response)) or ""
        return error

    def __str__(self) -> str:
        wait = f"retry after {asked_s(self):g} s"
        return f"{self.answer}; {wait}" if self.answer else wait

    def __repr__(self) -> str:
        return f"{type(self).__name__}({str(self)!r})" if self.answer else super().__repr__()


def asked_s(error: RetryAfter) -> float:
    """Returns the wait that `error` asks for: 0 to 3600, even if a subclass has set `seconds`."""
    return _read(lambda: _wait_s(error.seconds)) or 0.0


def _wait_s(when: object) -> float:
    return _read(lambda: wait_s_of(when, datetime.now(UTC))) or 0.0


def wait_s_of(when: object, now: datetime) -> float:
    """Returns the seconds from `now` to `when`, clamped to 0 to 3600. Raises if unreadable."""
    match when:
        case None:
            wait_s = 0.0
        case timedelta():
            wait_s = when.total_seconds()
        case datetime():
            wait_s = (when.astimezone(UTC) - now).total_seconds()
        case str():
            wait_s = _of_text(when, now)
        case bytes():
            wait_s = _of_text(when.decode("latin-1"), now)
        case _:
            wait_s = _number(when)
    if math.isnan(wait_s):
        raise ValueError("not a number")
    return min(max(wait_s, 0.0), MAX_RETRY_AFTER_S)


def _of_text(text: str, now: datetime) -> float:
    try:
        return float(text)
    except ValueError:
        date = parsedate_to_datetime(text)
    # parsedate_to_datetime returns a naive datetime for the zone -0000, which means UTC.
    return (date.replace(tzinfo=date.tzinfo or UTC) - now).total_seconds()


def _number(when: Any) -> float:
    try:
        return float(when)
    except OverflowError:
        return math.inf if when > 0 else 0.0


def _header(response: Any) -> Any:
    """Returns the header's value, whatever the case of its name; None without it."""
    found = _read(lambda: [v for k, v in response.headers.items() if k.lower() == "retry-after"])
    return found[0] if found else None


def _answer(response: Any) -> str:
    """Returns such as "503 Service Unavailable from api.example.com", as far as it is known."""
    numbers = (_read(lambda: response.status_code), _read(lambda: response.status))
    status = next((str(number) for number in numbers if type(number) is int), "")
    reasons = (_read(lambda: response.reason_phrase), _read(lambda: response.reason))
    reason = next((text for text in reasons if isinstance(text, str)), "")
    host = _read(lambda: urlsplit(str(response.url)).hostname)
    return " ".join(filter(None, (status, reason, f"from {host}" if host else "")))


def _read(reading: Callable[[], Any]) -> Any:
    """Returns the result of `reading`; None if it raises, as the value may be anything."""
    try:
        return reading()
    except Exception:  # noqa: BLE001  (a RetryAfter that raises makes a dead letter; see there)
        return None
