"""Does every guarantee hold after every sequence of steps, up to some number of them?"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass, replace
from multiprocessing import get_context
from typing import TypeAlias

from tests.torture.exploring import Reached, State, expand, play
from tests.torture.layer import Broker, Failure, Tally, play_all
from tests.torture.shapes import DEEP, MOST_STATES, SHAPES
from tests.torture.ways import Way

Expand: TypeAlias = Callable[[list[list[int]]], Iterable[Reached]]
"""Every step from every state, given in chunks of seeds."""

_PROCESSES = 2
_CHUNK = 200
_TOLD = 3


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
            begun = [seed for seed in level if self._has_room(seed)]
            chunks = [begun[start : start + _CHUNK] for start in range(0, len(begun), _CHUNK)]
            level, broken = [], False
            for reached in expand(chunks):
                tally = Tally(counts=reached.counts, failures=reached.failures)
                for state in reached.states:
                    self._note(state, depth, tally, level)
                broken = broken or bool(tally.failures)
                yield tally
            if broken:
                return

    def _has_room(self, seed: int) -> bool:
        world = Way.of(seed).world
        return self._states_of[world] < MOST_STATES[world]

    def _note(self, state: State, depth: int, tally: Tally, level: list[int]) -> None:
        if state.fingerprint in self._known:  # the other process has been here
            tally.counts["duplicates"] += 1
            return
        self._known.add(state.fingerprint)
        world = Way.of(state.seed).world
        self._states_of[world] += 1
        level.append(state.seed)
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
            for tally in Search(worlds, amount).run(lambda chunks: pool.map(expand, chunks)):
                yield replace(tally, failures=list(map(_with_story, tally.failures)))


def _with_story(failure: Failure) -> Failure:
    """As the replay tells it. Where that finds nothing, it is the exploring that is wrong."""
    replayed = play_all(play, range(failure.seed, failure.seed + 1)).failures
    if replayed:
        return replayed[0]
    return Failure(failure.seed, f"not so in a replay, a bug of the exploring:\n{failure.story}")


EXHAUSTIVE = Exhaustive()
