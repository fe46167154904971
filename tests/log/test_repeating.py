"""A thread of ours ends only when it is closed."""

from threading import Event

import pytest

from linear_retry.errors import LinearRetryError
from linear_retry.log.repeating import Repeating
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
