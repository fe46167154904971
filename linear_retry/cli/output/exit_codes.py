"""The exit codes of every command, their error messages, and the signals that end a command."""

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
UNCONFIRMED: Final = 7
HUNG_UP: Final = 129
INTERRUPTED: Final = 130
TERMINATED: Final = 143

MEANINGS: Final[Mapping[int, str]] = MappingProxyType(
    {
        DONE: "done, or nothing to do",
        NEGATIVE: "the answer is no, or the output was closed",
        USAGE_ERROR: "wrong usage",
        UNAVAILABLE: "something that it needs is missing, or is refused",
        FENCED: "ended by a newer command on the same topic or checkpoint",
        INSUFFICIENT_DATA: "not enough data",
        PENDING: "accepted, but not finished in time",
        UNCONFIRMED: "the result failed its check, and was not written",
        HUNG_UP: "the terminal was closed",
        INTERRUPTED: "Ctrl-C",
        TERMINATED: "SIGTERM",
    }
)
"""The meaning of each code, the same in every command."""


@contextmanager
def exit_on_error() -> Iterator[None]:
    """Turns an exception raised inside into one sentence on stderr and an exit code."""
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
    """Asks for confirmation; the end of the input means no, and a signal ends the command."""
    with exit_on_error():
        try:
            return typer.confirm(question, err=True)
        except typer.Abort as error:
            # Typer treats Ctrl-C like the end of the input, and would end with `NEGATIVE`.
            if isinstance(error.__context__, KeyboardInterrupt):
                raise error.__context__ from None
            return False


def fail_interrupted(error: KeyboardInterrupt, so_far: str = "") -> NoReturn:
    """Reports that a signal has ended it, with `so_far`, and exits with that signal's code."""
    number = error.number if isinstance(error, Terminated) else signal.SIGINT
    if number == signal.SIGHUP:
        raise typer.Exit(HUNG_UP)  # the terminal is gone
    word = "terminated" if number == signal.SIGTERM else "interrupted"
    fail(f"{word}{so_far}", code_of_signal(number))


def code_of_signal(number: int) -> int:
    """Returns the exit code of a command that this signal has ended, as shells do."""
    return 128 + number


def fail(text: str, code: int) -> NoReturn:
    """Prints `text` on stderr, and ends with this exit code."""
    typer.echo(text, err=True)
    raise typer.Exit(code)


class Terminated(KeyboardInterrupt):
    """Raised for SIGTERM or SIGHUP, so that the clean-up after Ctrl-C covers them too."""

    def __init__(self, number: int) -> None:
        super().__init__()
        self.number = number


@contextmanager
def ended_by_signals() -> Iterator[None]:
    """Raises `Terminated` inside the `with` at the first SIGTERM or SIGHUP; ignores later ones.

    `timeout` sends two at once, and the second would interrupt the clean-up of the first, such as
    the abort of a transaction. A signal that is ignored already (`nohup`), or has a handler, is
    left alone. Only in the main thread, where Python allows it.
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
