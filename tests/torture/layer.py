"""A layer of the torture, and its result."""

from __future__ import annotations

import gc
import logging
import signal
import traceback
from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Callable, Iterator
from concurrent.futures import (
    FIRST_COMPLETED,
    BrokenExecutor,
    Executor,
    Future,
    ProcessPoolExecutor,
    ThreadPoolExecutor,
    wait,
)
from dataclasses import dataclass, field, replace
from functools import partial
from itertools import islice
from multiprocessing import get_context
from typing import Protocol, TypeAlias

from tests.real_kafka import RealKafka

Counts: TypeAlias = Counter[str]
"""What happened how often: `Counter({"attempts": 812, "openings": 31})`."""

Broker: TypeAlias = Callable[[], RealKafka]
"""The broker of the whole run, started when it is asked for first."""

_PROCESSES = 2
_MOST_STORIES = 10


@dataclass(frozen=True, slots=True)
class Failure:
    """A seed that broke a guarantee, and what a person needs to see why.

    `replay`: what to play instead, where it is not one seed that shows it.
    """

    seed: int
    story: str
    replay: str = ""

    @property
    def command(self) -> str:
        """The options under which its layer shows it again."""
        return self.replay or f"--seed {self.seed}"


@dataclass(slots=True)
class Tally:
    """What came of some seeds, or of all. Of many failures only the first have a story."""

    done: int = 0
    counts: Counts = field(default_factory=Counter)
    failures: list[Failure] = field(default_factory=list)

    def add(self, other: Tally) -> None:
        """`other` came of other seeds."""
        self.done += other.done
        self.counts.update(other.counts)
        room = max(_MOST_STORIES - len(self.failures), 0)
        self.failures += other.failures[:room]
        self.failures += [replace(failure, story="") for failure in other.failures[room:]]


class Layer(Protocol):
    """One row of the matrix. `short` is its amount in `make test`, `long` in `make torture`."""

    @property
    def name(self) -> str: ...

    @property
    def unit(self) -> str: ...

    @property
    def short(self) -> int: ...

    @property
    def long(self) -> int: ...

    def run(self, first: int, amount: int, broker: Broker) -> Iterator[Tally]:
        """Tallies of parts, as they come, which add up: seeds `first` to `first + amount - 1`."""
        ...


class ByDepth(ABC):
    """A layer whose amount is no number of seeds but a depth: it is all that there is up to there.

    What has failed in it has a seed all the same.
    """

    __slots__ = ()

    @abstractmethod
    def replay(self, seed: int) -> Iterator[Tally]:
        """Raises `ValueError`, at once, where nothing has this seed."""


@dataclass(frozen=True, slots=True)
class Seeded:
    """Plays one seed after another, in two processes: nothing of a play may need another one.

    `play` is a module's function; what it raises is the seed's failure, and its text the story.
    """

    name: str
    unit: str
    short: int
    long: int
    play: Callable[[int], Counts]
    chunk: int = 100
    at_once: int = 1
    """So many of a chunk, where most of a play is waiting."""

    def run(self, first: int, amount: int, broker: Broker) -> Iterator[Tally]:
        if amount == 1:  # a replay: here, where a debugger sees it
            yield play_all(self.play, range(first, first + 1))
            return
        play = partial(play_all, self.play, at_once=self.at_once)
        starts = range(first, first + amount, self.chunk)
        chunks = (range(start, min(start + self.chunk, first + amount)) for start in starts)
        # Those that wait have real clients. One that cannot be closed in time spins inside
        # librdkafka for ever, and takes its processor from all that follow: so none follows it.
        for_each_pool = None if self.at_once == 1 else _PROCESSES
        while parts := list(islice(chunks, for_each_pool)):
            # Spawned: librdkafka's threads do not survive a fork.
            pool = ProcessPoolExecutor(_PROCESSES, get_context("spawn"), _begin_process)
            yield from _as_they_come(pool, play, iter(parts), 2 * _PROCESSES)


@dataclass(frozen=True, slots=True)
class OnBroker:
    """Plays seeds on the real broker, which they share, some at once: most of a play is waiting."""

    name: str
    unit: str
    short: int
    long: int
    play: Callable[[int, RealKafka], Counts]
    at_once: int = 1

    def run(self, first: int, amount: int, broker: Broker) -> Iterator[Tally]:
        kafka = broker()

        def one(seeds: range) -> Tally:
            return play_all(lambda seed: self.play(seed, kafka), seeds)

        pool = ThreadPoolExecutor(self.at_once, self.name)
        each = (range(seed, seed + 1) for seed in range(first, first + amount))
        yield from _as_they_come(pool, one, each, self.at_once)


def _as_they_come(
    pool: Executor, play: Callable[[range], Tally], parts: Iterator[range], at_once: int
) -> Iterator[Tally]:
    """Not all are handed in at once: whoever interrupts it waits for no more than these."""
    under_way: dict[Future[Tally], range] = {}
    try:
        while True:
            for part in islice(parts, at_once - len(under_way)):
                under_way[pool.submit(play, part)] = part
            if not under_way:
                return
            for done in wait(under_way, return_when=FIRST_COMPLETED).done:
                yield done.result()
                del under_way[done]
    except BrokenExecutor as error:
        yield Tally(failures=[_died(part, error) for part in under_way.values()])
    finally:
        pool.shutdown(cancel_futures=True)


def _died(seeds: range, error: BrokenExecutor) -> Failure:
    """librdkafka can take a whole process with it, and nobody is left to say which seed it was."""
    return Failure(seeds.start, f"{error}\nPerhaps in one of these seeds.", range_of(seeds))


def range_of(seeds: range) -> str:
    """The options that play all of them."""
    return f"--first {seeds.start} --amount {len(seeds)}"


def _begin_process() -> None:
    # What members say is in the story of the play that fails.
    logging.getLogger("linear_retry").addHandler(logging.NullHandler())
    # Each play is thrown away whole: to look for what can go 30 times in each costs a tenth of all.
    gc.set_threshold(20_000)
    # A worker that raised KeyboardInterrupt would go on with the next of its plays.
    signal.signal(signal.SIGINT, signal.SIG_DFL)


def play_all(play: Callable[[int], Counts], seeds: range, at_once: int = 1) -> Tally:
    """All of them, those that fail included."""
    tally = Tally()
    if at_once == 1:
        for seed in seeds:
            tally.add(_played(play, seed))
        return tally
    with ThreadPoolExecutor(at_once) as pool:
        for part in pool.map(partial(_played, play), seeds):
            tally.add(part)
    return tally


def _played(play: Callable[[int], Counts], seed: int) -> Tally:
    try:
        return Tally(1, play(seed))
    except Exception:  # noqa: BLE001  (whatever it is, it is this seed's failure)
        return Tally(1, failures=[Failure(seed, traceback.format_exc())])
