"""Passes on what a child process logs to its parent."""

import logging
import logging.handlers
from collections.abc import Callable, Mapping
from contextlib import suppress
from queue import SimpleQueue

from linear_retry.log.lines import write_guarded


def levels() -> dict[str, int]:
    """The levels that the program has set, for another process that logs through this one."""
    loggers = {"": logging.root, **logging.root.manager.loggerDict}
    return {
        name: found.level
        for name, found in loggers.items()
        if isinstance(found, logging.Logger) and found.level
    }


def relay_logs(send: Callable[[logging.LogRecord], None], of_parent: Mapping[str, int]) -> None:
    """Sends what this process logs to its parent, which has these levels.

    Unless the program, as imported here, has set up log handlers: it would be written twice.
    """
    if logging.root.handlers:
        return
    for name, level in of_parent.items():
        logging.getLogger(name).setLevel(level)
    logging.root.addHandler(_Relay(send))


def log_relayed(record: logging.LogRecord) -> None:
    """Logs a record of another process as if it were one of this process."""
    to = logging.getLogger(record.name)
    if to.isEnabledFor(record.levelno):
        write_guarded(to.handle, record)


class _Relay(logging.handlers.QueueHandler):
    """Formats records as `QueueHandler` does, so that they can be pickled."""

    def __init__(self, send: Callable[[logging.LogRecord], None]) -> None:
        super().__init__(SimpleQueue())  # it stays empty
        self._send = send

    def enqueue(self, record: logging.LogRecord) -> None:
        with suppress(OSError):  # the parent is gone: nobody reads this
            self._send(record)
