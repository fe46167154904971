"""An error of the retry line crosses to the process of the live one."""

import pickle

from linear_retry import PermanentError, RetryLineError
from linear_retry.consumer.runners.together.messages import Ended, ended_with
from tests.consumer.runners.together.lines import Line, OwnError, WrongError, fail


def _raised() -> Exception:
    try:
        fail(Line())
    except PermanentError as error:
        return error
    raise AssertionError("it fails")


def _crossed(ended: Ended) -> Ended:
    found = pickle.loads(pickle.dumps(ended))
    assert isinstance(found, Ended)
    return found


def test_an_error_crosses_with_its_traceback() -> None:
    """As a note, for pickle keeps none; its cause beside it."""
    ended = _crossed(ended_with(_raised()))
    assert isinstance(ended.error, PermanentError)
    assert isinstance(ended.cause, OwnError)
    (note,) = ended.error.__notes__
    assert note.startswith("In the process of the retry line:\nTraceback")
    assert "in fail\n" in note


def test_an_error_that_pickle_cannot_make_again() -> None:
    """Its constructor takes more than pickle keeps: it is named in an error that can be made."""
    ended = _crossed(ended_with(WrongError(1, 2)))
    assert isinstance(ended.error, RetryLineError)
    assert "the retry line ended with WrongError: 1 and 2" == str(ended.error)


def test_a_cause_that_pickle_cannot_make_again() -> None:
    """Is left out; the note has it."""
    error = OwnError("declined")
    error.__cause__ = WrongError(1, 2)
    ended = _crossed(ended_with(error))
    assert isinstance(ended.error, OwnError)
    assert ended.cause is None
    assert "WrongError: 1 and 2" in ended.error.__notes__[0]
