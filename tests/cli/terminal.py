"""Runs commands on a terminal, and in a pipe."""

import fcntl
import json
import os
import pty
import re
import signal
import struct
import subprocess
import sys
import termios
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from threading import Thread
from typing import Any, Self

from tests.kafka_operations import wait_until
from tests.patience import PATIENCE_S
from tests.whole_lines import whole_lines

_MAIN = "from linear_retry.cli import main; main()"


def command(*arguments: str) -> list[str]:
    """`linear-retry` with these arguments."""
    return [sys.executable, "-c", _MAIN, *arguments]


class Terminal:
    """A process, and all that it has written on its terminal so far."""

    def __init__(self, process: subprocess.Popen[bytes], master: int) -> None:
        self._process, self._master = process, master
        self._written = b""
        self._reader = Thread(target=self._read, name="terminal", daemon=True)
        self._reader.start()

    @property
    def text(self) -> str:
        return self._written.decode(errors="replace")

    def wait_for(self, words: str) -> None:
        wait_until(lambda: words in self.text, f"{words!r} on the terminal", detail=lambda: self)

    def end(self, number: int = signal.SIGINT) -> int:
        """Send the signal; its exit code, once all it wrote is read."""
        self._process.send_signal(number)
        code = self._process.wait(PATIENCE_S)
        self._reader.join(PATIENCE_S)
        return code

    def __str__(self) -> str:
        return re.sub(r"\x1b\[[0-9;?]*[A-Za-z]", "", self.text)

    def _read(self) -> None:
        while True:
            try:
                chunk = os.read(self._master, 1 << 16)
            except OSError:  # EIO: the other side has gone
                return
            if not chunk:
                return
            self._written += chunk


@contextmanager
def terminal(*arguments: str, width: int = 80, height: int = 24) -> Iterator[Terminal]:
    """`linear-retry` with these arguments on a terminal of this size; killed at the end."""
    master, slave = pty.openpty()
    fcntl.ioctl(slave, termios.TIOCSWINSZ, struct.pack("HHHH", height, width, 0, 0))
    unset = ("COLUMNS", "LINES", "NO_COLOR", "FORCE_COLOR")
    environment = {name: value for name, value in os.environ.items() if name not in unset}
    environment |= {"TERM": "xterm", "PYTHONIOENCODING": "utf-8"}
    process = subprocess.Popen(
        command(*arguments), stdin=slave, stdout=slave, stderr=slave, env=environment
    )
    os.close(slave)
    try:
        yield Terminal(process, master)
    finally:
        process.kill()
        process.wait(PATIENCE_S)
        os.close(master)


class Piped:
    """`linear-retry` with these arguments, and all that it has written in a pipe so far."""

    def __init__(self, directory: Path, *arguments: str) -> None:
        self._out, self._err = directory / "out", directory / "err"
        with self._out.open("wb") as out, self._err.open("wb") as err:
            self._process = subprocess.Popen(
                command(*arguments),
                stdout=out,
                stderr=err,
                env=os.environ | {"FORCE_COLOR": "1"},
            )

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._process.kill()
        self._process.wait(PATIENCE_S)

    @property
    def lines(self) -> list[str]:
        """Those that are whole."""
        return whole_lines(self._out)

    @property
    def output(self) -> list[str]:
        return whole_lines(self._err)

    @property
    def objects(self) -> list[dict[str, Any]]:
        return [json.loads(line) for line in self.lines]

    def ends(self) -> int:
        return self._process.wait(PATIENCE_S)

    def interrupted(self) -> int:
        self._process.send_signal(signal.SIGINT)
        return self.ends()
