"""An error of the retry line crosses to the process of the live one."""

import pickle
from collections.abc import Callable
from typing import Any, cast

import pytest

from linear_retry import PermanentError, RetryLineError
from linear_retry.consumer.runners.together.messages import Ended, Outgoing, ended_with
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


class _Pipe:
    """Sends another message from within, as a collection does that runs a `__del__` which logs."""

    def __init__(self) -> None:
        self.sent: list[Any] = []
        self.outgoing = Outgoing(cast(Any, self))

    def send_bytes(self, content: bytes) -> None:
        number = pickle.loads(content)
        if number < 3:
            self.outgoing.send(number + 1)
        self.sent.append(number)


@pytest.mark.parametrize("send", [Outgoing.send, Outgoing.send_last])
def test_a_message_may_be_sent_while_another_is(send: Callable[[Outgoing, int], None]) -> None:
    """Both are sent whole, one after the other. The bug: the second waited for a lock that its own
    thread held, for ever."""
    pipe = _Pipe()
    send(pipe.outgoing, 0)
    assert [0, 1, 2, 3] == pipe.sent
