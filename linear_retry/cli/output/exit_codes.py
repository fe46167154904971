"""The exit codes of every command, the sentence that goes with one, and the signals that end it."""

import signal
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from types import FrameType, MappingProxyType
from typing import Final, NoReturn

import typer

from linear_retry.errors import ConfigurationError, FencedError, LinearRetryError, UsageError

_SIGNALS = (signal.SIGTERM, signal.SIGHUP)

DONE: Final = 0
NEGATIVE: Final = 1
USAGE_ERROR: Final = 2
UNAVAILABLE: Final = 3
FENCED: Final = 4
INSUFFICIENT_DATA: Final = 5
PENDING: Final = 6
HUNG_UP: Final = 129
INTERRUPTED: Final = 130
TERMINATED: Final = 143

MEANINGS: Final[Mapping[int, str]] = MappingProxyType(
    {
        DONE: "done, or nothing to do",
        NEGATIVE: "the answer is no, or the reader of the output has gone",
        USAGE_ERROR: "wrong usage",
        UNAVAILABLE: "something that it needs is missing, or is refused",
        FENCED: "ended by a newer command on the same topic",
        INSUFFICIENT_DATA: "not enough data",
        PENDING: "accepted, but not finished in time",
        HUNG_UP: "the terminal has gone",
        INTERRUPTED: "Ctrl-C",
        TERMINATED: "SIGTERM",
    }
)
"""What each code means, in every command that ends with it."""


@contextmanager
def exit_on_error() -> Iterator[None]:
    """What is raised inside becomes one sentence on stderr and an exit code."""
    try:
        with ended_by_signals():
            yield
    except (ConfigurationError, UsageError) as error:
        fail(str(error), USAGE_ERROR)
    except FencedError as error:
        fail(str(error), FENCED)
    except LinearRetryError as error:
        fail(str(error), UNAVAILABLE)
    except KeyboardInterrupt as error:
        fail_interrupted(error)


def confirmed(question: str) -> bool:
    """Whether somebody says yes; the end of the input is a no, and a signal ends the command."""
    with exit_on_error():
        try:
            return typer.confirm(question, err=True)
        except typer.Abort as error:
            # Typer takes Ctrl-C for the end of the input, and would end with `NEGATIVE`.
            if isinstance(error.__context__, KeyboardInterrupt):
                raise error.__context__ from None
            return False


def fail_interrupted(error: KeyboardInterrupt, so_far: str = "") -> NoReturn:
    """Say that a signal has ended it, and `so_far`, and end with the exit code of that signal."""
    number = error.number if isinstance(error, Terminated) else signal.SIGINT
    if number == signal.SIGHUP:
        raise typer.Exit(HUNG_UP)  # nobody reads it
    word = "terminated" if number == signal.SIGTERM else "interrupted"
    fail(f"{word}{so_far}", code_of_signal(number))


def code_of_signal(number: int) -> int:
    """The exit code of a command that this signal has ended, as shells have it."""
    return 128 + number


def fail(text: str, code: int) -> NoReturn:
    """Say it on stderr, and end with this exit code."""
    typer.echo(text, err=True)
    raise typer.Exit(code)


class Terminated(KeyboardInterrupt):
    """SIGTERM or SIGHUP has come. Whatever cleans up after Ctrl-C cleans up after this too."""

    def __init__(self, number: int) -> None:
        super().__init__()
        self.number = number


@contextmanager
def ended_by_signals() -> Iterator[None]:
    """The first SIGTERM or SIGHUP raises `Terminated` inside the `with`; later ones are ignored.

    `timeout` sends two at once, and the second would end what the first has begun: the abort of a
    transaction, say. A signal that is ignored already (`nohup`), or that somebody else handles,
    stays as it is. Only in the main thread, where Python allows it.
    """
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    ours = [number for number in _SIGNALS if signal.getsignal(number) == signal.SIG_DFL]

    def end(number: int, _: FrameType | None) -> NoReturn:
        for each in ours:
            signal.signal(each, signal.SIG_IGN)
        raise Terminated(number)

    for number in ours:
        signal.signal(number, end)
    try:
        yield
    finally:
        for number in ours:
            signal.signal(number, signal.SIG_DFL)
