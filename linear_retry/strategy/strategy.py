"""How long to wait after failure k of a message, and when to give up?"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from os import PathLike

from linear_retry.errors import StrategyError, UsageError
from linear_retry.files.small import NOT_TEXT
from linear_retry.strategy.delays import Element, expand, is_number, shown

# Neither can be shown or sent as it is: a lone surrogate in a header crashes librdkafka's binding,
# and a control character in a description would speak to the operator's terminal.


@dataclass(frozen=True, slots=True, init=False)
class Strategy:
    """An array of delays: element k is the wait after failure k. After the last one, give up.

    `Strategy([1, 5, "30s", {"every": "5m", "times": 2}])` takes the elements that a strategy file
    takes: seconds, durations, `every`/`times` and `exponential`. `jitter` (0 to 1) lengthens each
    wait by a random share of up to that much, never shortens it. An empty array never waits.

    Equal strategies have the same waits, jitter, name and description; equal fingerprints say
    that waits and jitter are the same. Raises `StrategyError` with everything that is wrong.
    """

    delays_ms: tuple[int, ...]
    """The waits without jitter, expanded, in whole milliseconds (rounded to the nearest)."""
    jitter: float
    name: str
    """The file's stem, or `inline`."""
    description: str
    fingerprint: str
    """The first 12 hex digits of the SHA-256 of the waits in ms, joined by commas, a semicolon,
    and the jitter as Python writes it: of the ASCII text `1000,5000,30000;0.1`."""

    def __init__(
        self,
        delays: Sequence[Element],
        *,
        jitter: float = 0.0,
        name: str = "inline",
        description: str = "",
    ) -> None:
        problems: list[str] = []
        delays_ms = expand(delays, problems)
        if not is_number(jitter, 0, 1):
            problems.append(
                f"jitter: {shown(jitter)} is not a share; write a number from 0 to 1, such as 0.1"
            )
        problems += _text_problems("description", description) + _text_problems("name", name)
        if name == "":
            problems.append('name: "" is empty; leave it out, or name the strategy')
        if problems:
            raise StrategyError(problems)
        share = float(jitter) + 0.0  # -0.0 becomes 0.0: the same waits, so the same fingerprint
        object.__setattr__(self, "delays_ms", delays_ms)
        object.__setattr__(self, "jitter", share)
        object.__setattr__(self, "name", name)
        object.__setattr__(self, "description", description)
        object.__setattr__(self, "fingerprint", _fingerprint(delays_ms, share))

    @classmethod
    def load(cls, path: str | PathLike[str]) -> Strategy:
        """The strategy in the JSON file at `path`, read once. Raises `StrategyError`."""
        # Not at module level: that room makes strategies, so it imports this one.
        from linear_retry.strategy.file import load

        return load(path)

    @classmethod
    def named(cls, name: str) -> Strategy:
        """The ready strategy of this name, such as `short-outage`. Raises `StrategyError`.

        They come with the package; strategies/README.md says which one to take when.
        """
        from linear_retry.strategy.ready import named  # as above

        return named(name)

    def __len__(self) -> int:
        """How many failures are waited for; the next one gives up."""
        return len(self.delays_ms)

    def __bool__(self) -> bool:
        """Always true: an empty strategy is one too, and `strategy or default` must keep it."""
        return True

    def __iter__(self) -> Iterator[float]:
        """The waits in seconds, without jitter."""
        return (delay_ms / 1000 for delay_ms in self.delays_ms)

    def delay_s(self, failures: int, dice: Callable[[], float] | None = None) -> float | None:
        """The wait in seconds after failure number `failures` (1-based); None: give up.

        `dice` draws the jitter, a number in [0, 1), such as `random.random`; it is asked only
        where there is jitter. Without it, the wait is the strategy's own. Raises `UsageError` for
        `failures` below 1: an index of -1 would silently be the last wait.
        """
        if failures < 1:
            raise UsageError(f"failures={failures}: the first failure is 1; count it, then ask")
        if failures > len(self.delays_ms):
            return None
        delay_s = self.delays_ms[failures - 1] / 1000
        if dice is None or self.jitter == 0:
            return delay_s
        return delay_s * (1 + self.jitter * dice())

    @property
    def total_s(self) -> float:
        """All the waits together in seconds, without jitter: up to `1 + jitter` times as long."""
        return sum(self.delays_ms) / 1000

    @property
    def label(self) -> str:
        """`name@fingerprint`: which strategy it was, and in which version."""
        return f"{self.name}@{self.fingerprint}"


def _fingerprint(delays_ms: tuple[int, ...], jitter: float) -> str:
    text = f"{','.join(map(str, delays_ms))};{jitter!r}"
    return hashlib.sha256(text.encode("ascii")).hexdigest()[:12]


def _text_problems(key: str, value: object) -> list[str]:
    if not isinstance(value, str):
        return [f'{key}: {shown(value)} is not a text; write one such as "for short outages"']
    bad = NOT_TEXT.search(value)
    if bad is None:
        return []
    return [
        f"{key}: {shown(bad.group())} in it is a control character or half a character; "
        "write one line of plain text"
    ]
