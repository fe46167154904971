"""An error of the retry line crosses to the process of the live one."""

import os
import pickle
import threading
from multiprocessing import Pipe
from typing import Any, cast

from linear_retry import PermanentError, RetryLineError
from linear_retry.consumer.runners.together.messages import Dropped, Ended, Outgoing, ended_with
from tests.consumer.runners.together.lines import Line, OwnError, WrongError, fail
from tests.kafka_operations import wait_until


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
    """Keeps what is sent, once somebody reads it; logs while it sends, as a collection may."""

    def __init__(self, parent: int | None = None) -> None:
        self.sent: list[Any] = []
        self.is_read, self.is_full = threading.Event(), threading.Event()
        self.outgoing = Outgoing(cast(Any, self), parent or os.getppid())

    def send_bytes(self, content: bytes) -> None:
        self.is_full.set()
        self.is_read.wait()
        message = pickle.loads(content)
        if message == "logs":
            self.outgoing.send("meanwhile")
        if message == "again":
            self.outgoing.send("again")
        self.sent.append(message)


def test_a_message_may_be_sent_while_another_is() -> None:
    """Both are sent whole, one after the other. The bug: the second waited for a lock that its own
    thread held, for ever."""
    pipe = _Pipe()
    pipe.is_read.set()
    assert pipe.outgoing.send_last("logs")
    assert pipe.outgoing.flush()
    assert ["logs", "meanwhile"] == pipe.sent


def test_a_slow_reader_stops_nobody_and_costs_no_memory() -> None:
    """What is too much is dropped, and its number said. Whoever logged waited for the reader, and
    what others logged meanwhile was kept without a limit."""
    pipe = _Pipe()
    pipe.outgoing.send(0)
    pipe.is_full.wait()
    for number in range(1, 20_000):
        pipe.outgoing.send(number)
    pipe.is_read.set()
    assert pipe.outgoing.send_last("last")
    *kept, last = [each for each in pipe.sent if not isinstance(each, Dropped)]
    assert (list(range(10_001)), "last") == (kept, last)
    assert 9_999 == sum(each.count for each in pipe.sent if isinstance(each, Dropped))


def test_what_was_dropped_is_told_while_others_wait() -> None:
    """The bug: it was told once the queue was empty, which a program that logs much never sees."""
    pipe = _Pipe()
    for _ in range(10_100):
        pipe.outgoing.send("again")
    pipe.is_read.set()
    wait_until(lambda: any(isinstance(each, Dropped) for each in pipe.sent), "it is told")
    pipe.is_read.clear()


def test_a_pipe_that_a_fork_holds_open_is_not_waited_for() -> None:
    """The bug: its reader was killed while it was full, and this process waited for ever."""
    pipe = _Pipe(parent=os.getpid())  # which is not the parent
    assert not pipe.outgoing.send_last("last")


def test_a_reader_that_is_gone_is_not_waited_for() -> None:
    """What is logged then is lost, and the process can end."""
    reading, writing = Pipe(duplex=False)
    outgoing = Outgoing(writing, os.getppid())
    reading.close()
    outgoing.send("one")
    assert not outgoing.send_last("last")
