"""A member in a process of its own."""

import subprocess
import sys
import threading
from collections.abc import Callable
from concurrent.futures import Future
from pathlib import Path
from typing import Protocol

from linear_retry.testing import Entry
from tests import dying_with_parent
from tests.patience import PATIENCE_S
from tests.scenarios.testimony import read_testimony

CHECKOUT = Path(__file__).parents[2]


class Life(Protocol):
    """What a process is to do, and where it leaves its testimony."""

    @property
    def testimony(self) -> str: ...

    def to_json(self) -> str: ...


class Process:
    """A consumer in a process of its own, which does not outlive this one."""

    def __init__(
        self,
        role: Life,
        errors: Path,
        died: Callable[[], None],
        module: str = "tests.scenarios.child",
    ) -> None:
        """`module` is run with the role as its argument. `died`: a signal has ended it."""
        self._role, self._errors = role, errors
        command = (sys.executable, "-m", module, role.to_json())
        with errors.open("wb") as file:
            self._process = subprocess.Popen(
                dying_with_parent.guarded(*command),
                cwd=CHECKOUT,
                stdin=subprocess.DEVNULL,
                stdout=file,
                stderr=file,
                process_group=0,  # Ctrl-C is for pytest, which then ends its children
            )
        self._ended: Future[int] = Future()
        threading.Thread(target=self._wait, args=(died,), name="process", daemon=True).start()

    def signal(self, number: int) -> None:
        self._process.send_signal(number)

    def kill(self) -> None:
        self._process.kill()
        self._ended.result(PATIENCE_S)

    @property
    def has_ended(self) -> bool:
        return self._ended.done()

    def exit_code(self, within_s: float = PATIENCE_S) -> int:
        """Once it has ended; a signal's is negative."""
        return self._ended.result(within_s)

    def log(self) -> list[Entry]:
        return read_testimony(Path(self._role.testimony))

    def stderr(self) -> str:
        return self._errors.read_text(errors="replace")

    def _wait(self, died: Callable[[], None]) -> None:
        """At once, for it may be killed from anywhere; and noted before its end is known."""
        code = self._process.wait()
        if code < 0:
            died()
        self._ended.set_result(code)
