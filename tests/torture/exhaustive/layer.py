"""Does every guarantee hold after every sequence of steps, up to some number of them?"""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import Executor, Future, ProcessPoolExecutor
from dataclasses import dataclass, replace
from multiprocessing import get_context
from typing import TypeAlias

from tests.torture.exhaustive.exploring import Reached, State, expand, play
from tests.torture.exhaustive.shapes import DEEP, MOST_STATES, SHAPES
from tests.torture.exhaustive.ways import Way
from tests.torture.layer import Broker, Failure, Tally, play_all

Expand: TypeAlias = Callable[[Iterator[list[int]]], Iterable[Reached]]
"""Every step from every state, given in chunks of seeds; what comes of them, in their order."""

_PROCESSES = 2
_CHUNK = 100


class Search:
    """Breadth first, so what breaks is found by a shortest way; each state is gone on from once.

    After a level with a failure there is no further one.
    """

    def __init__(self, worlds: Sequence[int], depth: int) -> None:
        self._worlds = worlds
        self._depth = depth
        self._known: set[bytes] = set()
        self._states_of: Counter[int] = Counter()

    def run(self, expand: Expand) -> Iterator[Tally]:
        """A tally of new states for each chunk."""
        level = [Way(world).seed for world in self._worlds]
        for depth in range(1, self._depth + 1):
            further: list[int] = []
            broken = False
            for reached in expand(self._chunks(level)):
                tally = Tally(counts=reached.counts, failures=reached.failures)
                for state in reached.states:
                    self._note(state, depth, tally, further)
                broken = broken or bool(tally.failures)
                yield tally
            if broken:
                return
            level = further

    def _chunks(self, level: list[int]) -> Iterator[list[int]]:
        """Without those of worlds of which enough is known when their turn comes."""
        for start in range(0, len(level), _CHUNK):
            chunk = [seed for seed in level[start : start + _CHUNK] if self._has_room(seed)]
            if chunk:
                yield chunk

    def _has_room(self, seed: int) -> bool:
        world = Way.of(seed).world
        return self._states_of[world] < MOST_STATES[world]

    def _note(self, state: State, depth: int, tally: Tally, further: list[int]) -> None:
        if state.fingerprint in self._known:  # the other process has been here
            tally.counts["duplicates"] += 1
            return
        self._known.add(state.fingerprint)
        world = Way.of(state.seed).world
        self._states_of[world] += 1
        further.append(state.seed)
        tally.done += 1
        scope = SHAPES[world].scope
        tally.counts[f"states of scope {scope}"] += 1
        tally.counts[f"states at depth {depth:2}"] += 1
        tally.counts.update(f"states of scope {scope} {mark}" for mark in set(state.marks))


@dataclass(frozen=True, slots=True)
class Exhaustive:
    """Its amount is a depth: so many steps. A seed is a way, world and steps (`Way`)."""

    name: str = "exhaustive"
    unit: str = "states"
    short: int = 7
    long: int = 10

    def run(self, first: int, amount: int, broker: Broker) -> Iterator[Tally]:
        """To more than the short depth, the wide worlds too."""
        if amount == 1:  # a replay
            yield play_all(play, range(first, first + 1))
            return
        worlds = range(len(DEEP) if amount <= self.short else len(SHAPES))
        with ProcessPoolExecutor(_PROCESSES, get_context("spawn")) as pool:
            for tally in Search(worlds, amount).run(lambda chunks: _ahead(pool, chunks)):
                yield replace(tally, failures=list(map(_with_story, tally.failures)))


def _ahead(pool: Executor, chunks: Iterator[list[int]]) -> Iterator[Reached]:
    """A few chunks at once, no more: what comes of them says whether more are wanted."""
    under_way: deque[Future[Reached]] = deque()
    for chunk in chunks:
        under_way.append(pool.submit(expand, chunk))
        if len(under_way) == 2 * _PROCESSES:
            yield under_way.popleft().result()
    while under_way:
        yield under_way.popleft().result()


def _with_story(failure: Failure) -> Failure:
    """As the replay tells it. Where that finds nothing, it is the exploring that is wrong."""
    replayed = play_all(play, range(failure.seed, failure.seed + 1)).failures
    if replayed:
        return replayed[0]
    return Failure(failure.seed, f"not so in a replay, a bug of the exploring:\n{failure.story}")


EXHAUSTIVE = Exhaustive()
