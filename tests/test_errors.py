"""Are the errors one tree, and does `RetryAfter` take whatever a server says?"""

from __future__ import annotations

import math
import pickle

import pytest
from hypothesis import given
from hypothesis import strategies as st

from linear_retry import errors
from linear_retry.errors import (
    MAX_RETRY_AFTER_S,
    ConfigurationError,
    ExhaustedError,
    HandlerTooSlowError,
    LinearRetryError,
    PermanentError,
    RetryAfter,
    StrategyError,
)


@pytest.mark.parametrize(
    ("asked_s", "expected_s"),
    [
        (0, 0.0),
        (0.25, 0.25),
        (3600, 3600.0),
        (3600.001, 3600.0),
        (7200, 3600.0),
        (-1, 0.0),
        (-0.0, 0.0),
        (math.inf, 3600.0),
        (-math.inf, 0.0),
        (math.nan, 0.0),
        (True, 1.0),
    ],
)
def test_retry_after_is_cut_to_its_range(asked_s: float, expected_s: float) -> None:
    """Beyond 0 to 3600 s it is cut, and NaN is 0: raising would make it a permanent error."""
    assert expected_s == RetryAfter(asked_s).seconds


@given(st.floats())
def test_retry_after_is_always_a_wait(asked_s: float) -> None:
    """For every number the wait is finite, not negative and at most an hour."""
    assert 0.0 <= RetryAfter(asked_s).seconds <= MAX_RETRY_AFTER_S


def test_retry_after_keeps_what_it_was_given() -> None:
    """The arguments stay in `args`, and the text says what will be waited for."""
    error = RetryAfter(7200, "from the server")
    assert (7200, "from the server") == error.args
    assert "retry after 3600 s" == str(error)


def test_retry_after_is_no_error_of_ours() -> None:
    """`except LinearRetryError` around a handler's call must not swallow its request."""
    assert not issubclass(RetryAfter, LinearRetryError)


def test_the_errors_are_one_tree() -> None:
    """Every public error but `RetryAfter` is a `LinearRetryError`: one `except` catches ours."""
    found = {
        name: item
        for name, item in vars(errors).items()
        if isinstance(item, type) and issubclass(item, BaseException) and not name.startswith("_")
    }
    assert {"RetryAfter"} == {
        name for name, item in found.items() if not issubclass(item, LinearRetryError)
    }


@pytest.mark.parametrize("kind", [ExhaustedError, PermanentError, HandlerTooSlowError])
def test_an_error_about_a_message_says_where(
    kind: type[ExhaustedError | PermanentError | HandlerTooSlowError],
) -> None:
    """Coordinates and failures are attributes, not only text."""
    error = kind("orders[3]@42 failed", topic="orders", partition=3, offset=42, failures=2)
    assert ("orders", 3, 42, 2) == (error.topic, error.partition, error.offset, error.failures)
    assert "orders[3]@42 failed" == str(error)


def test_a_strategy_error_holds_all_problems() -> None:
    """One line for each problem; it is caught as a configuration's and as a value's."""
    error = StrategyError(["[0]: bad", "[3]: worse"])
    assert ("[0]: bad", "[3]: worse") == error.problems
    assert "[0]: bad\n[3]: worse" == str(error)
    assert isinstance(error, ConfigurationError)
    assert isinstance(error, ValueError)


def test_a_number_too_large_for_a_float_is_a_wait_too() -> None:
    """`RetryAfter(10**400)` raised OverflowError, which made the message permanent."""
    assert (3600.0, 0.0) == (RetryAfter(10**400).seconds, RetryAfter(-(10**400)).seconds)


@pytest.mark.parametrize(
    "error",
    [
        StrategyError(["[0]: one", "[1]: two"]),
        ExhaustedError("gone", topic="orders", partition=3, offset=1042, failures=5),
    ],
)
def test_errors_cross_processes(error: LinearRetryError) -> None:
    """A pickled error says the same: worker pools send them so."""
    again = pickle.loads(pickle.dumps(error))
    assert (str(error), vars(error)) == (str(again), vars(again))
