"""A retry strategy: the wait after failure k of a message, and when to give up."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from itertools import accumulate
from math import inf
from os import PathLike

from linear_retry.errors import ConfigurationError, StrategyError, UsageError
from linear_retry.strategy import file
from linear_retry.strategy.delays import Element, check_settings, expand, read_max_elapsed_ms


@dataclass(frozen=True, slots=True, init=False)
class Strategy:
    """An array of delays: element k is the wait after failure k. After the last one, give up.

    `Strategy([1, 5, "30s", {"every": "5m", "times": 2}])` takes the same elements as a strategy
    file: seconds, durations, `every`/`times` and `exponential`. `jitter` (0 to 1) lengthens each
    wait by a random share of up to that much, and never shortens it. An empty array never waits.

    `max_elapsed`, seconds or a duration above 0, bounds the time from a message's first failure:
    no retry begins later than that. A failure whose retry would, jitter and `RetryAfter` included,
    is the last one, however many delays are left, and there is no wait: the rule of tenacity's
    `stop_before_delay`. (stamina's `timeout` and Spring's `maxElapsedTime` allow one retry beyond
    it.) An attempt that has begun is never cut short. The time counts on after a restart and at the
    partition's next owner, like the count of failures.

    Equal strategies have the same waits, settings, name and description; strategies with the same
    fingerprint have the same waits, jitter and `max_elapsed`. Raises `StrategyError` with
    everything that is wrong.
    """

    delays_ms: tuple[int, ...]
    """The waits without jitter, expanded, in whole milliseconds (rounded to the nearest)."""
    jitter: float
    max_elapsed_s: float | None
    """In seconds, rounded to the nearest millisecond above 0; None: no limit."""
    name: str
    """The file's stem, or `inline`."""
    description: str
    fingerprint: str
    """The first 12 hex digits of the SHA-256 of the waits in ms, joined by commas, a semicolon,
    and the jitter as Python writes it: of the ASCII text `1000,5000,30000;0.1`. With `max_elapsed`,
    a semicolon and its milliseconds follow: `1000,5000,30000;0.1;300000`."""

    def __init__(
        self,
        delays: Sequence[Element],
        *,
        jitter: float = 0.0,
        max_elapsed: float | str | None = None,
        name: str = "inline",
        description: str = "",
    ) -> None:
        problems: list[str] = []
        delays_ms = expand(delays, problems)
        max_elapsed_ms = read_max_elapsed_ms(max_elapsed, problems)
        problems += check_settings(jitter, name, description)
        if problems:
            raise StrategyError(problems)
        share = float(jitter) + 0.0  # -0.0 becomes 0.0: the same waits, so the same fingerprint
        object.__setattr__(self, "delays_ms", delays_ms)
        object.__setattr__(self, "jitter", share)
        elapsed_s = None if max_elapsed_ms is None else max_elapsed_ms / 1000
        object.__setattr__(self, "max_elapsed_s", elapsed_s)
        object.__setattr__(self, "name", name)
        object.__setattr__(self, "description", description)
        object.__setattr__(self, "fingerprint", _fingerprint(delays_ms, share, max_elapsed_ms))

    @classmethod
    def load(cls, path: str | PathLike[str]) -> Strategy:
        """Reads the strategy in the JSON file at `path`, once. Raises `StrategyError`."""
        return cls(**file.load(path))

    @classmethod
    def named(cls, name: str) -> Strategy:
        """The ready-made strategy of this name, such as `short-outage`. Raises `StrategyError`.

        They come with the package; strategies/README.md says which one to use when.
        """
        return cls(**file.load_ready(name))

    def __len__(self) -> int:
        """The number of delays; it gives up after one failure more, or earlier by `max_elapsed`."""
        return len(self.delays_ms)

    def __bool__(self) -> bool:
        """Always true, so that `strategy or default` keeps an empty strategy."""
        return True

    def __iter__(self) -> Iterator[float]:
        """The waits in seconds, without jitter."""
        return (delay_ms / 1000 for delay_ms in self.delays_ms)

    def delay_s(self, failures: int, rng: Callable[[], float] | None = None) -> float | None:
        """The wait in seconds after failure number `failures` (1-based); None: no delay is left.

        `rng` draws the jitter, a number in [0, 1), such as `random.random`; it is called only if
        there is jitter. Without `rng`, the wait has no jitter. Raises `UsageError` for `failures`
        below 1: an index of -1 would silently be the last wait.
        """
        if failures < 1:
            raise UsageError(f"failures={failures}: the first failure is 1; count it, then ask")
        if failures > len(self.delays_ms):
            return None
        delay_s = self.delays_ms[failures - 1] / 1000
        if rng is None or self.jitter == 0:
            return delay_s
        return delay_s * (1 + self.jitter * rng())

    @property
    def total_s(self) -> float:
        """The sum of all waits in seconds, without jitter and those that `max_elapsed` prevents.

        With jitter the waits last up to `1 + jitter` times as long.
        """
        return sum(self.reached_ms()) / 1000

    def reached_ms(self, stretch: float = 1.0) -> tuple[int, ...]:
        """The waits, each `stretch` times as long, up to the first that `max_elapsed` prevents.

        In whole milliseconds, and where attempts take no time.
        """
        waits_ms = [round(delay_ms * stretch) for delay_ms in self.delays_ms]
        limit_ms = inf if self.max_elapsed_s is None else self.max_elapsed_s * 1000
        reached = sum(1 for since_ms in accumulate(waits_ms) if since_ms <= limit_ms)
        return tuple(waits_ms[:reached])

    @property
    def distinct_delays_ms(self) -> tuple[int, ...]:
        """Each wait once, without jitter, the shortest first: one retry topic for each of them.

        Step n, 1-based, waits for `delays_ms[n - 1]`, which is `delay_s(n)` in milliseconds.
        """
        return tuple(sorted(set(self.delays_ms)))

    @property
    def label(self) -> str:
        """`name@fingerprint`: the strategy and its version."""
        return f"{self.name}@{self.fingerprint}"


def check_retry_delays(strategy: Strategy) -> None:
    """Raises `ConfigurationError` if retry topics cannot have these delays."""
    if strategy.jitter:
        raise ConfigurationError(
            f"{strategy.label}: retry topics have no jitter ({strategy.jitter:g}), since all "
            "records of a topic wait equally long; remove it"
        )
    check_waits(strategy)


def check_waits(strategy: Strategy) -> None:
    """Raises `ConfigurationError` if no message that leaves the line would ever be retried."""
    if not strategy.delays_ms:
        raise ConfigurationError(
            f"{strategy.label}: it has no delays: no message would ever be retried; add one"
        )
    limit_s, first_s = strategy.max_elapsed_s, strategy.delays_ms[0] / 1000
    if limit_s is not None and first_s > limit_s:
        raise ConfigurationError(
            f"{strategy.label}: the first delay, {first_s:g} s, is longer than max_duration or "
            f"max_elapsed, {limit_s:g} s: no message would ever be retried; make that longer"
        )


def _fingerprint(delays_ms: tuple[int, ...], jitter: float, max_elapsed_ms: int | None) -> str:
    text = f"{','.join(map(str, delays_ms))};{jitter!r}"
    if max_elapsed_ms is not None:
        text += f";{max_elapsed_ms}"
    return hashlib.sha256(text.encode("ascii")).hexdigest()[:12]
