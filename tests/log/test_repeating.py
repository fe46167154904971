"""A thread of ours ends only when it is closed."""

from threading import Event

import pytest

from linear_retry.errors import LinearRetryError
from linear_retry.log.repeating import (
    FORGOTTEN_AFTER_S,
    ErrorThrottle,
    Repeating,
)
from tests.patience import PATIENCE_S


def test_whatever_ends_the_work_is_said_and_it_is_begun_again(
    caplog: pytest.LogCaptureFixture,
) -> None:
    """An error of ours in its words, and a bug with its traceback in the log. The bug: a
    `sys.exit` in a function of a user's ended the thread, and nothing said so."""
    noted, works = list[str](), Event()
    errors = [LinearRetryError("no answer"), KeyError("bug"), SystemExit(3)]

    def work(stop: Event) -> None:
        if errors:
            raise errors.pop(0)
        works.set()
        stop.wait()

    thread = Repeating("test", work, noted.append, again_s=0)
    thread.start()
    assert works.wait(PATIENCE_S)
    thread.close(30)
    unexpected = ["KeyError('bug')", "SystemExit(3)"]
    assert ["no answer", *(f"an unexpected error: {error}" for error in unexpected)] == noted
    assert [("test: an unexpected error; it begins again", True)] * 2 == [
        (each.message, each.exc_info is not None) for each in caplog.records
    ]


def test_the_first_and_each_tenfold() -> None:
    """A kind is said at its first coming, its tenth, its hundredth."""
    complaints = ErrorThrottle()
    counts = [complaints.count(1, 0.0) for _ in range(120)]
    assert [1, 10, 100] == [count for count in counts if count]


def test_kinds_that_take_turns() -> None:
    """A broker that is down brings two kinds in turn: each was said each time."""
    complaints = ErrorThrottle()
    counts = [(code, complaints.count(code, 0.0)) for _ in range(20) for code in (1, 2)]
    assert [(1, 1), (2, 1), (1, 10), (2, 10)] == [(code, count) for code, count in counts if count]


def test_what_has_been_quiet_counts_from_one_again() -> None:
    """A kind not heard for a minute is another outage, said again."""
    complaints = ErrorThrottle()
    assert 1 == complaints.count(1, 0.0)
    assert complaints.count(1, FORGOTTEN_AFTER_S) is None
    assert 1 == complaints.count(1, 2 * FORGOTTEN_AFTER_S + 0.1)
