"""Slows down the guessing of passwords."""

import math
import time
from collections import OrderedDict
from collections.abc import Callable
from dataclasses import dataclass

_FREE = 10
_LONGEST_S = 60
_FORGOTTEN_S = 15 * 60
_MOST = 10_000
_NAME_CHARACTERS = 100


@dataclass(frozen=True, slots=True)
class _Failures:
    count: int
    until_s: float


class Attempts:
    """Counts wrong passwords by the address they come from and the name.

    After ten, the next must wait for 1, 2, 4 ... up to 60 seconds; 15 minutes without any
    reset the count. By the name alone, anybody could lock an operator out.
    """

    def __init__(self, clock_s: Callable[[], float] = time.monotonic, most: int = _MOST) -> None:
        """Of more than `most` addresses and names, those that failed longest ago are forgotten."""
        self._clock_s, self._most = clock_s, most
        self._failures: OrderedDict[tuple[str, str], _Failures] = OrderedDict()

    def begin(self, address: str, name: str) -> int:
        """Counts an attempt as failed; returns the seconds that it must wait for, if any.

        Before the password is checked: many guesses at once would else be one failure each. One
        that must wait is not counted.
        """
        key, now_s = (address, name[:_NAME_CHARACTERS]), self._clock_s()
        failures = self._failures.get(key, _Failures(0, now_s))
        if now_s < failures.until_s:
            return math.ceil(failures.until_s - now_s)
        count = 1 if now_s - failures.until_s > _FORGOTTEN_S else failures.count + 1
        wait_s = 0 if count < _FREE else min(2 ** min(count - _FREE, 10), _LONGEST_S)
        self._failures[key] = _Failures(count, now_s + wait_s)
        self._failures.move_to_end(key)
        if len(self._failures) > self._most:
            self._failures.popitem(last=False)
        return 0

    def passed(self, address: str, name: str) -> None:
        """Forgets the failures: the password was right."""
        self._failures.pop((address, name[:_NAME_CHARACTERS]), None)
