"""SIGTERM and SIGHUP end a command as Ctrl-C does, so that it closes what it has open."""

import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType
from typing import NoReturn

_SIGNALS = (signal.SIGTERM, signal.SIGHUP)


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
