"""Whatever a server says is taken for a wait, and never for an error."""

import copy
import email.message
import math
import pickle
from collections.abc import Callable
from datetime import UTC, datetime, timedelta, timezone
from decimal import Decimal
from email.utils import format_datetime
from types import SimpleNamespace
from typing import Any
from unittest.mock import Mock
from urllib.error import HTTPError

import httpx
import pytest
from hypothesis import given
from hypothesis import strategies as st

from linear_retry import LinearRetryError, RetryAfter
from linear_retry.retry.retry_after import MAX_RETRY_AFTER_S, asked_s, wait_s_of

_NOW = datetime(2026, 1, 2, 3, 4, 5, tzinfo=UTC)
_IN_A_MINUTE = _NOW + timedelta(minutes=1)


@pytest.mark.parametrize(
    ("when", "expected_s"),
    [
        *((None, 0.0), (0, 0.0), (0.25, 0.25), (3600, 3600.0), (3600.001, 3600.0), (7200, 3600.0)),
        *((-1, 0.0), (-0.0, 0.0), (math.inf, 3600.0), (-math.inf, 0.0), (True, 1.0)),
        *((10**400, 3600.0), (-(10**400), 0.0), (Decimal("2.5"), 2.5)),
        *(("120", 120.0), (" 1.5 ", 1.5), ("7200", 3600.0), ("-3", 0.0), (b"120", 120.0)),
        (timedelta(minutes=2), 120.0),
        (timedelta(days=-2), 0.0),
        (_IN_A_MINUTE, 60.0),
        (_IN_A_MINUTE.astimezone(timezone(timedelta(hours=-7))), 60.0),
        (_IN_A_MINUTE.astimezone().replace(tzinfo=None), 60.0),
        (_NOW - timedelta(days=1), 0.0),
        (format_datetime(_IN_A_MINUTE, usegmt=True), 60.0),
        ("Fri, 02 Jan 2026 03:05:05 -0000", 60.0),
        ("Fri, 02 Jan 2026 04:05:05 +0100", 60.0),
        ("Friday, 02-Jan-26 03:05:05 GMT", 60.0),
        ("Fri Jan  2 03:05:05 2026", 60.0),
        (b"Fri, 02 Jan 2026 03:05:05 GMT", 60.0),
    ],
    ids=repr,
)
def test_every_form_of_a_wait(when: Any, expected_s: float) -> None:
    """Seconds, the three forms of an HTTP date (RFC 9110), a `datetime`, a `timedelta`, or None;
    cut to 0 to 3600 s. The bug: an HTTP date raised ValueError in the handler, so an outage's
    message was a dead letter."""
    assert expected_s == wait_s_of(when, _NOW)


def test_a_date_is_a_wait_from_now_on() -> None:
    """What the constructor reads is the wall clock."""
    in_half_an_hour = datetime.now(UTC) + timedelta(minutes=30)
    assert 1790 < RetryAfter(format_datetime(in_half_an_hour, usegmt=True)).seconds <= 1800


class _Unspeakable:
    def __repr__(self) -> str:
        raise LookupError

    def __float__(self) -> float:
        raise LookupError


@pytest.mark.parametrize(
    "when",
    [
        *("soon", "", "nan", math.nan, b"\xff", [1], object, _Unspeakable()),
        "Wed, 99 Foo 2026 25:61:61 GMT",
    ],
    ids=["soon", "empty", "nan", "NaN", "bytes", "list", "type", "unspeakable", "date"],
)
def test_what_cannot_be_read_counts_as_none(when: Any) -> None:
    """Nothing is raised, and the strategy alone decides."""
    error = RetryAfter(when)
    assert (0.0, "retry after 0 s") == (error.seconds, str(error))


@given(
    st.one_of(st.text(), st.binary(), st.floats(), st.integers(), st.datetimes(), st.timedeltas())
)
def test_it_never_raises(when: Any) -> None:
    """Whatever it is given, the wait is finite, not negative and at most an hour."""
    error = RetryAfter(when)
    assert 0.0 <= error.seconds <= MAX_RETRY_AFTER_S
    assert str(error)


@given(
    st.from_regex(
        r"[A-Z][a-z]{2}, ?[0-9 -]{0,9}[A-Za-z]{0,4} [0-9]{0,9} [0-9:]{0,9} ?[-+A-Z0-9]{0,6}"
    )
)
def test_what_looks_like_a_date_never_raises(text: str) -> None:
    """Python's parser of dates has raised IndexError and OverflowError."""
    assert 0.0 <= RetryAfter(text).seconds <= MAX_RETRY_AFTER_S


@pytest.mark.parametrize(
    ("after", "expected_s"),
    [(math.inf, 3600.0), (math.nan, 0.0), ("soon", 0.0), ("30", 30.0), (None, 0.0), (5, 5.0)],
)
def test_seconds_that_are_set_later(after: Any, expected_s: float) -> None:
    """Read like any other, when asked. The bug: infinity ended `run`, and blamed `transient`."""
    error = RetryAfter(1)
    error.seconds = after
    assert expected_s == asked_s(error)


def test_a_subclass_that_does_not_call_our_init() -> None:
    """It asks for no wait of its own. The bug: `run` ended with an AttributeError."""

    class BusyError(RetryAfter):
        def __init__(self, text: str) -> None:
            self.text = text

    assert (0.0, "retry after 0 s") == (asked_s(BusyError("busy")), str(BusyError("busy")))


@pytest.mark.parametrize(
    ("seconds", "expected_s"),
    [(30, 30.0), (math.inf, 3600.0), ("soon", 0.0), (property(lambda self: 1 / 0), 0.0)],
)
def test_a_subclass_with_seconds_of_its_own(seconds: Any, expected_s: float) -> None:
    """Bounded like ours."""
    kind = type("BusyError", (RetryAfter,), {"seconds": seconds, "__init__": Exception.__init__})
    assert (expected_s, f"retry after {expected_s:g} s") == (asked_s(kind()), str(kind()))


def test_it_keeps_what_it_was_given() -> None:
    """The arguments stay in `args`, and the text says what will be waited for."""
    error = RetryAfter("7200", "from the server")
    assert ("7200", "from the server") == error.args
    assert "retry after 3600 s" == str(error)


@pytest.mark.parametrize("copied", [copy.copy, lambda error: pickle.loads(pickle.dumps(error))])
def test_a_copy_asks_for_the_same(copied: Callable[[RetryAfter], RetryAfter]) -> None:
    """Also where it came of a date."""
    error = RetryAfter(format_datetime(datetime.now(UTC) + timedelta(minutes=5), usegmt=True))
    assert error.seconds == copied(error).seconds


def test_it_is_no_error_of_ours() -> None:
    """`except LinearRetryError` around a handler's call must not swallow its request."""
    assert not issubclass(RetryAfter, LinearRetryError)


def _headers_of_urllib() -> email.message.Message:
    headers = email.message.Message()
    headers["Retry-After"] = "17"
    return headers


@pytest.mark.parametrize(
    "headers",
    [
        httpx.Headers({"retry-after": "17"}),
        _headers_of_urllib(),
        {"Retry-After": "17"},
        {"Server": "x", "retry-after": "17"},
    ],
    ids=lambda headers: type(headers).__name__,
)
def test_the_header_of_a_response(headers: Any) -> None:
    """Of whatever has `.headers` with `.items()`, and whatever the case of the name."""
    assert 17.0 == RetryAfter.from_response(SimpleNamespace(headers=headers)).seconds


@pytest.mark.parametrize(
    "response", [httpx.Response(503), None, "503", SimpleNamespace(headers=None)]
)
def test_a_response_without_the_header(response: Any) -> None:
    """Most say nothing, and some are none: the strategy alone decides."""
    assert 0.0 == RetryAfter.from_response(response).seconds


def _of_httpx() -> httpx.Response:
    request = httpx.Request("POST", "https://user:secret@api.example.com:8443/charge?key=secret")
    return httpx.Response(503, headers={"Retry-After": "3"}, request=request)


def _of_requests() -> Any:
    url = "https://api.example.com/charge?key=secret"
    headers = {"retry-after": "3"}
    return SimpleNamespace(status_code=503, reason="Service Unavailable", url=url, headers=headers)


def _of_urllib() -> HTTPError:
    headers = email.message.Message()
    headers["Retry-After"] = "3"
    url = "https://api.example.com/charge?key=secret"
    return HTTPError(url, 503, "Service Unavailable", headers, None)


@pytest.mark.parametrize("response", [_of_httpx(), _of_requests(), _of_urllib()], ids=repr)
def test_the_text_says_what_has_failed(response: Any) -> None:
    """The bug: a 429 of one service and a 503 of another were both `RetryAfter('3')`, in the log
    and in letters. No secret of a URL is in it."""
    error = RetryAfter.from_response(response)
    text = "503 Service Unavailable from api.example.com; retry after 3 s"
    assert (text, f"RetryAfter({text!r})") == (str(error), repr(error))
    assert repr(error) == repr(pickle.loads(pickle.dumps(error)))


@pytest.mark.parametrize(
    ("response", "text"),
    [
        (SimpleNamespace(status=429, headers={}), "429; retry after 0 s"),
        (SimpleNamespace(url="https://api.example.com"), "from api.example.com; retry after 0 s"),
        (httpx.Response(429), "429 Too Many Requests; retry after 0 s"),  # it has no request
        *((response, "retry after 0 s") for response in (None, Mock(), object(), "503")),
    ],
    ids=repr,
)
def test_a_text_without_what_is_not_known(response: Any, text: str) -> None:
    """Whatever the response is, the text has what could be read, and nothing is raised."""
    assert text == str(RetryAfter.from_response(response))
