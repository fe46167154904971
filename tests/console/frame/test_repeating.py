"""A thread of the console ends only when it is closed."""

from threading import Event

import pytest

from linear_retry.console.frame.repeating import Repeating
from linear_retry.errors import LinearRetryError
from tests.patience import PATIENCE_S


def test_whatever_ends_the_work_is_said_and_it_is_begun_again(
    caplog: pytest.LogCaptureFixture,
) -> None:
    """An error of ours in its words, and a bug with its traceback in the log."""
    errors, noted, works = [LinearRetryError("no answer"), KeyError("bug")], list[str](), Event()

    def work(stop: Event) -> None:
        if errors:
            raise errors.pop(0)
        works.set()
        stop.wait()

    thread = Repeating("test", work, noted.append, again_s=0)
    thread.start()
    assert works.wait(PATIENCE_S)
    thread.close(30)
    assert ["no answer", "an unexpected error: KeyError('bug')"] == noted
    assert [("test: an unexpected error; it begins again", True)] == [
        (each.message, each.exc_info is not None) for each in caplog.records
    ]
