"""Lets a handler say how long to wait, in whatever form a server says it."""

import math
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from email.utils import parsedate_to_datetime
from typing import Any, Protocol, Self, TypeAlias

MAX_RETRY_AFTER_S = 3600.0

When: TypeAlias = float | str | datetime | timedelta | None


class Response(Protocol):
    """An answer of httpx, requests, aiohttp or urllib."""

    @property
    def headers(self) -> Any: ...


class RetryAfter(Exception):  # noqa: N818  (a request of the handler's, not an error of ours)
    """Raised by a handler: transient, and wait at least so long this once.

    Counts as a failure; the delay is `max(seconds, the strategy's)`. For HTTP 429 and 503.
    `when` is what the header `Retry-After` has, seconds or an HTTP date, as text; or a number of
    seconds, a `timedelta`, a `datetime` (without a zone: local time), or None: the strategy alone
    decides. What is beyond 0 to 3600 s is cut to that range, so a time that is past is 0.

    Never raises by itself, for a ValueError here would be one of the handler's, so permanent, and
    an outage's message would be a dead letter: what cannot be read counts as None. `seconds` is how
    long to wait at least, from the moment that this was made: 0 to 3600.
    """

    seconds: float = 0.0  # of a subclass that does not call this __init__

    def __init__(self, when: When = None, *args: object) -> None:
        super().__init__(when, *args)
        self.seconds = _wait_s(when)

    @classmethod
    def from_response(cls, response: Response) -> Self:
        """For the `Retry-After` of a response; without that header, None."""
        return cls(_header(response))

    def __str__(self) -> str:
        return f"retry after {asked_s(self):g} s"


def asked_s(error: RetryAfter) -> float:
    """What `error` asks for: 0 to 3600, also where `seconds` is a subclass's own, or was set."""
    return _read(lambda: _wait_s(error.seconds)) or 0.0


def _wait_s(when: object) -> float:
    return _read(lambda: wait_s_of(when, datetime.now(UTC))) or 0.0


def wait_s_of(when: object, now: datetime) -> float:
    """How many seconds `when` is from `now`, cut to 0 to 3600. Raises where it cannot be read."""
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
    # A date whose zone is -0000 comes without one, and is in UTC.
    return (date.replace(tzinfo=date.tzinfo or UTC) - now).total_seconds()


def _number(when: Any) -> float:
    try:
        return float(when)
    except OverflowError:
        return math.inf if when > 0 else 0.0


def _header(response: Any) -> Any:
    """The header's value, whatever the case of its name; None where there is none."""
    found = _read(lambda: [v for k, v in response.headers.items() if k.lower() == "retry-after"])
    return found[0] if found else None


def _read(reading: Callable[[], Any]) -> Any:
    """What `reading` returns; None where it raises: servers and handlers give anything at all."""
    try:
        return reading()
    except Exception:  # noqa: BLE001  (a RetryAfter that raises makes a dead letter; see there)
        return None
