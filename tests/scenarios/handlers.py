"""The handlers of the scenarios."""

import signal
import threading
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TypeAlias

from linear_retry.kafka import Message

Script: TypeAlias = Mapping[str, Sequence[str]]
"""Place, as `partition@offset`, to what each attempt of it does; afterwards it succeeds.

`outage` and `poison` raise. `wait SECONDS` returns after so long. `gate PATH` returns once there is
such a file, `gate PATH poison` raises then. `hang PATH` never returns, and makes such a file once
SIGINT acts as it does by default.
"""

_LOOKS_S = 0.005


class OutageError(Exception):
    """The dependency is down."""


class PoisonError(Exception):
    """This message can never be handled."""


class Scripted:
    """A handler that does as the script says."""

    def __init__(self, script: Script) -> None:
        self._steps = {place: iter(steps) for place, steps in script.items()}

    def __call__(self, message: Message) -> None:
        place = f"{message.partition()}@{message.offset()}"
        _act(next(self._steps.get(place, iter(())), "done"), place)


class Each:
    """A handler of lists that calls another with each, and does not say which one failed."""

    def __init__(self, handler: Callable[[Message], object]) -> None:
        self._handler = handler

    def __call__(self, messages: list[Message]) -> None:
        for message in messages:
            self._handler(message)


class Dependency:
    """A handler of what is up or down, and refuses some messages for ever."""

    def __init__(self) -> None:
        self.down = False
        self.refuses: set[tuple[int, int]] = set()

    def __call__(self, message: Message) -> None:
        if (message.partition(), message.offset()) in self.refuses:
            raise PoisonError(f"{message.partition()}@{message.offset()}")
        if self.down:
            raise OutageError(f"{message.partition()}@{message.offset()}")


def _act(step: str, place: str) -> None:
    waiting = threading.Event()
    match step.split():
        case ["done"]:
            return
        case ["outage"]:
            raise OutageError(place)
        case ["poison"]:
            raise PoisonError(place)
        case ["hang", path]:
            while signal.getsignal(signal.SIGINT) is not signal.default_int_handler:
                waiting.wait(_LOOKS_S)
            Path(path).touch()
            waiting.wait()
        case ["gate", path, *then]:
            while not Path(path).exists():
                waiting.wait(_LOOKS_S)
            _act(" ".join(then) or "done", place)
        case ["wait", seconds]:
            waiting.wait(float(seconds))
        case _:
            raise AssertionError(f"the script says {step!r}")
