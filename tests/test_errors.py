"""The errors are one tree, and say what they are about."""

import importlib
import pickle

import pytest

from linear_retry import errors
from linear_retry.errors import (
    ConfigurationError,
    ExhaustedError,
    HandlerTooSlowError,
    LinearRetryError,
    PermanentError,
    StrategyError,
)


def test_the_errors_are_one_tree() -> None:
    """Every public error is a `LinearRetryError`: one `except` catches ours."""
    found = {
        name: item
        for name, item in vars(errors).items()
        if isinstance(item, type) and issubclass(item, BaseException) and not name.startswith("_")
    }
    assert set() == {name for name, item in found.items() if not issubclass(item, LinearRetryError)}


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


@pytest.mark.parametrize(
    "face", ["linear_retry", "linear_retry.dlq", "linear_retry.errors", "linear_retry.spark"]
)
def test_an_error_has_its_public_name(face: str) -> None:
    """The bug: a letter, the journal and a filter had the path of a module that is nobody's to
    import, and that a later version may move."""
    items = vars(importlib.import_module(face)).values()
    kinds = [one for one in items if isinstance(one, type) and issubclass(one, BaseException)]
    assert kinds
    assert {face, "linear_retry.errors"} >= {kind.__module__ for kind in kinds}
