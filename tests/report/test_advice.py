"""Each piece of advice is given if its rule holds, and only then."""

from typing import Any

import pandas as pd  # type: ignore[import-untyped]  # it has no types
import pytest

from linear_retry.report.advice import advice
from tests.report.frames import MONDAY_MS, error

_GROUP = {
    **dict.fromkeys(("outages", "recovered", "given_up", "left_line", "with_missing_entries"), 0),
    "group": "billing",
    "known_end": 60,
    "blocked_s": 100.0,
    "unsure_s": 10.0,
}
_LETTERS = {"group": "billing", "reason": "permanent", "exception_type": "x.E", "unreadable": 0}
_KEY = {"group": "billing", "key": "k", "form": "text"}


def _emitted(errors: list[dict[str, Any]], **tables: list[dict[str, Any]]) -> list[str]:
    frames = {name: pd.DataFrame(rows) for name, rows in tables.items()}
    columns = list(error("", ""))
    return [
        each.text for each in advice({**frames, "errors": pd.DataFrame(errors, columns=columns)})
    ]


def test_an_error_waited_for_in_vain() -> None:
    """Five given up and none recovered; with its share, which is none of 0."""
    [text] = _emitted([error("billing", "NoSuchItem", outages=6, given_up=5)])
    assert "6 outages began with NoSuchItem, 5 were given up, and none recovered" in text
    assert "at most 45% of them would" in text
    assert [] == _emitted([error("billing", "NoSuchItem", outages=6, given_up=5, recovered=1)])
    assert [] == _emitted([error("billing", "NoSuchItem", outages=6, given_up=4)])
    assert [] == _emitted([error("billing", None, outages=6, given_up=6)])
    left = error("billing", "NoSuchItem", outages=7, given_up=5, left_line=1)
    assert [] == _emitted([left])  # the retry line may have handled that one


def test_an_error_given_up_too_soon() -> None:
    """Three permanent letters, and three outages of that error that recovered, wherever."""
    dead = error("stock", "Timeout", letters_permanent=3)
    [text] = _emitted([dead, error("billing", "Timeout", outages=3, recovered=3)])
    assert "stock gave up 3 messages at once for Timeout" in text
    assert "outages that began with it recovered: 3 in others" in text
    [text] = _emitted([{**dead, "recovered": 4}])
    assert "recovered: 4 in this group." in text
    assert [] == _emitted([dead, error("billing", "Timeout", outages=2, recovered=2)])
    assert [] == _emitted([dead, error("billing", "Other", outages=3, recovered=3)])


@pytest.mark.parametrize(
    ("changed", "message"),
    [
        ({"with_missing_entries": 1}, "missing in 1 outage of 1 group"),
    ],
)
def test_a_group(changed: dict[str, Any], message: str) -> None:
    """Entries of it are missing."""
    [text] = _emitted([], groups=[{**_GROUP, **changed}])
    assert message in text
    assert [] == _emitted([], groups=[_GROUP])


def test_a_key() -> None:
    """One key with ten letters, which are a fifth of its group's."""
    letters = [{**_LETTERS, "letters": 50}]
    [text] = _emitted([], letters=letters, keys=[{**_KEY, "letters": 10}])
    assert "10 letters of group billing (20% of all) have the key k" in text
    assert [] == _emitted([], letters=letters, keys=[{**_KEY, "letters": 9}])
    assert [] == _emitted([], letters=letters, keys=[{**_KEY, "letters": 40, "form": "none"}])
    assert [] == _emitted([], letters=[], keys=[{**_KEY, "letters": 40}])


def test_events() -> None:
    """What somebody should know is said first; what is in the log anyway is not."""
    lost = {"group": "billing", "event": "DataLost", "times": 2, "last_ms": MONDAY_MS}
    message = _emitted([], events=[{**lost, "event": "CommitFailed"}, lost])
    assert 1 == len(message)
    assert "2 times, the last at 2026-11-23 00:00 UTC" in message[0]
