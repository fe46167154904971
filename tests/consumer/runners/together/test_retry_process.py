"""The process of the retry line: how it is stopped, and what it says of its end."""

import logging
import os
import pickle
import re
import threading
from collections.abc import Callable, Iterator
from multiprocessing import Pipe, get_context
from typing import Any, cast

import pytest

from linear_retry import ConfigurationError, PermanentError, RetryLineError, UsageError
from linear_retry.consumer.runners.together.retry_line import (
    Dropped,
    Ended,
    Outgoing,
    Work,
    ended_with,
)
from linear_retry.consumer.runners.together.retry_process import RetryProcess
from linear_retry.log.relay import levels
from tests.consumer.runners.together import lines
from tests.consumer.runners.together.lines import AnyLine, Line, OwnError, WrongError, fail
from tests.kafka_operations import wait_until
from tests.patience import PATIENCE_S


class _Running:
    """A process that has been started, and whether its end was reported."""

    def __init__(self, handler: Any, *, is_async: bool = False) -> None:
        live, retry = cast(Any, AnyLine()), cast(Any, Line)
        self.line = RetryProcess(Work(live, retry, handler, is_async, levels()))
        self.ended = threading.Event()
        self.line.start(self.ended.set)


Start = Callable[..., _Running]


@pytest.fixture
def start() -> Iterator[Start]:
    """Starts lines, and ends those that a failed test leaves."""
    started: list[_Running] = []

    def begin(*work: Any, **options: Any) -> _Running:
        started.append(_Running(*work, **options))
        return started[-1]

    yield begin
    for one in started:
        one.line.kill()


@pytest.fixture
def logged(caplog: pytest.LogCaptureFixture) -> Callable[[str], bool]:
    """Whether this process has logged a text, to the logger of the process's handlers."""
    caplog.set_level(logging.INFO, "shop")
    return lambda text: text in [record.getMessage() for record in caplog.records]


def test_a_stop_ends_it(start: Start, logged: Callable[[str], bool]) -> None:
    """Without an error; the live line is not stopped for it, and everything was closed."""
    running = start(lines.succeed)
    wait_until(lambda: logged("running"), "it runs")
    running.line.stop()
    assert running.line.end() is None
    assert not running.ended.is_set()
    assert logged("closed")


def test_an_async_handler(start: Start, logged: Callable[[str], bool]) -> None:
    """Runs on an event loop of that process."""
    running = start(lines.succeed_async, is_async=True)
    wait_until(lambda: logged("running"), "it runs")
    assert running.line.end() is None


def test_what_it_logs(start: Start, logged: Callable[[str], bool]) -> None:
    """Is logged here, from the levels that are set here."""
    running = start(lines.succeed)
    wait_until(lambda: logged("running"), "it runs")
    running.line.end()
    assert not logged("in detail")


def test_a_record_that_is_made_while_another_is_sent(
    start: Start, logged: Callable[[str], bool]
) -> None:
    """The bug: it waited for a lock that its own thread held. The retry line stood still for ever,
    and the program never ended."""
    running = start(lines.log_while_logging)
    wait_until(lambda: logged("running") and logged("while another is sent"), "both are logged")
    assert running.line.end() is None


def test_what_a_forked_child_of_it_logs(start: Start, logged: Callable[[str], bool]) -> None:
    """Is logged here too, though the child has no thread of its parent's."""
    running = start(lines.log_in_a_fork)
    wait_until(lambda: logged("in a fork"), "it is logged")
    assert running.line.end() is None


def test_what_it_logs_as_it_exits(start: Start, logged: Callable[[str], bool]) -> None:
    """Is logged here before its end counts."""
    running = start(lines.log_at_exit)
    wait_until(lambda: logged("running"), "it runs")
    assert running.line.end() is None
    assert logged("exiting")


def test_an_error(start: Start) -> None:
    """Arrives with its attributes, its cause, and its traceback as a note; the live line ends."""
    running = start(lines.fail)
    assert running.ended.wait(PATIENCE_S)
    error = running.line.end()
    assert isinstance(error, PermanentError)
    assert ("orders", 1, 7) == (error.topic, error.partition, error.offset)
    assert isinstance(error.__cause__, OwnError)
    (note,) = error.__notes__
    assert "in fail\n" in note


def test_an_error_beyond_pickle(start: Start) -> None:
    """Is named, with its text and its traceback."""
    running = start(lines.fail_beyond_pickle)
    assert running.ended.wait(PATIENCE_S)
    error = running.line.end()
    assert isinstance(error, RetryLineError)
    assert "the retry line ended with WrongError: 1 and 2" == str(error)
    assert "in fail_beyond_pickle\n" in error.__notes__[0]


@pytest.mark.parametrize(
    ("handler", "said"),
    [
        (lines.die, "was killed by SIGKILL; the live line has ended with it; if nobody did that"),
        (lines.leave, "ended with exit code 3 and no error; the live line has ended with it"),
    ],
)
def test_it_dies(start: Start, handler: Any, said: str) -> None:
    """Nobody is left waiting for it, and the reason is in one sentence."""
    running = start(handler)
    assert running.ended.wait(PATIENCE_S)
    error = running.line.end()
    assert isinstance(error, RetryLineError)
    assert re.match(rf"the process of the retry line \(pid \d+\) {said}", str(error))


def test_it_dies_before_a_child(start: Start) -> None:
    """The pipe between the processes is still open then, and the live line ends all the same."""
    running = start(lines.die_before_a_child)
    assert running.ended.wait(PATIENCE_S)
    assert "was killed by SIGKILL" in str(running.line.end())


def test_a_fork_of_the_program(start: Start, logged: Callable[[str], bool]) -> None:
    """It has the pipe too, but what it closes or stops is not the retry line."""
    running = start(lines.succeed)
    wait_until(lambda: logged("running"), "it runs")
    child = os.fork()
    if child == 0:
        running.line.stop()
        os._exit(0)
    os.waitpid(child, 0)
    running.line.stop()
    assert running.line.end() is None
    assert logged("stopped 1 times")


def test_a_handler_that_hangs(start: Start, logged: Callable[[str], bool]) -> None:
    """Is killed when nobody waits for it any longer."""
    running = start(lines.hang)
    wait_until(lambda: logged("running"), "it runs")
    error = running.line.end(within_s=0.01)
    assert isinstance(error, RetryLineError)
    assert str(error).endswith("did not end in time, and was killed")


def test_a_signal_to_both_processes(start: Start, logged: Callable[[str], bool]) -> None:
    """As Ctrl-C in a terminal sends it: one stop, as the live line passes the second one on."""
    running = start(lines.count_signals)
    wait_until(lambda: logged("stops: 1"), "it was stopped once")
    assert running.line.end() is None


def test_what_cannot_be_imported() -> None:
    """Is refused before anything starts, with the remedy."""
    with pytest.raises(ConfigurationError, match=r"^handler=.*cannot be pickled.*threads=True"):
        _Running(lambda _: None)


def _start_one() -> str:
    try:
        _Running(lines.succeed)
    except UsageError as error:
        return str(error)
    return "started"


def test_a_process_that_cannot_have_children() -> None:
    """Such as a worker of multiprocessing.Pool: the error says what to do."""
    with get_context("spawn").Pool(1) as pool:
        assert "daemon=False" in pool.apply(_start_one)


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
