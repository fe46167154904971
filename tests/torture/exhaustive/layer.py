"""The layer: every sequence of steps, up to some number of them."""

from collections import Counter, deque
from collections.abc import Callable, Iterable, Iterator, Mapping
from concurrent.futures import Executor, Future, ProcessPoolExecutor
from dataclasses import dataclass, replace
from multiprocessing import get_context
from typing import TypeAlias

from tests.torture.exhaustive.exploring import Reached, State, check, expand, play
from tests.torture.exhaustive.shapes import MOST_STATES, SHAPES, SHORT_DEPTHS, name_of
from tests.torture.exhaustive.ways import Way
from tests.torture.layer import Broker, ByDepth, Failure, Tally, play_all

Expand: TypeAlias = Callable[[Iterator[list[int]]], Iterable[Reached]]
"""Every step from every state, given in chunks of seeds; what comes of them, in their order."""

_PROCESSES = 2
_CHUNK = 100


class Search:
    """Breadth first, so what breaks is found by a shortest way; each state is gone on from once.

    After a level with a failure there is no further one.
    """

    def __init__(self, depths: Mapping[int, int]) -> None:
        """`depths`: how deep, by world."""
        self._depths = depths
        self._known: set[bytes] = set()
        self._states_of: Counter[int] = Counter()
        self._cut: Counter[int] = Counter()

    def run(self, expand: Expand) -> Iterator[Tally]:
        """A tally of new states for each chunk."""
        level = [Way(world).seed for world in self._depths]
        for depth in range(1, max(self._depths.values()) + 1):
            level = [seed for seed in level if self._depths[Way.of(seed).world] >= depth]
            worlds = {Way.of(seed).world for seed in level}
            further: list[int] = []
            broken = False
            for reached in expand(self._chunks(level)):
                tally = Tally(counts=reached.counts, failures=reached.failures)
                for state in reached.states:
                    self._note(state, depth, tally, further)
                broken = broken or bool(tally.failures)
                yield tally
            yield Tally(counts=self._of_worlds(worlds))
            if broken:
                return
            level = further

    def _of_worlds(self, worlds: Iterable[int]) -> Counter[str]:
        """Of those that were gone on in: how deep all of it is, and what was left."""
        counts: Counter[str] = Counter()
        for world in worlds:
            counts[f"{name_of(world)}: depth"] += not self._cut[world]
            counts[f"{name_of(world)}: states cut off"] += self._cut.pop(world, 0)
        return counts

    def _chunks(self, level: list[int]) -> Iterator[list[int]]:
        """Without those of worlds of which enough is known when their turn comes."""
        for start in range(0, len(level), _CHUNK):
            chunk = level[start : start + _CHUNK]
            roomy = [seed for seed in chunk if self._has_room(seed)]
            self._cut.update(Way.of(seed).world for seed in chunk if not self._has_room(seed))
            if roomy:
                yield roomy

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
        tally.counts[f"{name_of(world)}: states"] += 1
        tally.counts[f"states at depth {depth:2}"] += 1
        scope = SHAPES[world].scope
        tally.counts.update(f"states of scope {scope} {mark}" for mark in set(state.marks))


@dataclass(frozen=True, slots=True)
class Exhaustive(ByDepth):
    """Its amount is a depth: so many steps. A seed is a way, world and steps (`Way`).

    In bounded time: a world of which a part of a million states is known is gone on in no further.
    The short form is less deep where that shows little that is new (`SHORT_DEPTHS`).
    """

    name: str = "exhaustive"
    unit: str = "states"
    short: int = 6
    long: int = 10

    def run(self, first: int, amount: int, broker: Broker) -> Iterator[Tally]:
        worlds = range(len(SHAPES))
        depths = SHORT_DEPTHS if amount == self.short else dict.fromkeys(worlds, amount)
        with ProcessPoolExecutor(_PROCESSES, get_context("spawn")) as pool:
            for tally in Search(depths).run(lambda chunks: _ahead(pool, chunks)):
                yield replace(tally, failures=list(map(_with_story, tally.failures)))

    def replay(self, seed: int) -> Iterator[Tally]:
        check(seed)
        return iter([play_all(play, range(seed, seed + 1))])


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
    """As the replay has it. Where that finds nothing, it is the exploring that is wrong."""
    replayed = play_all(play, range(failure.seed, failure.seed + 1)).failures
    if replayed:
        return replayed[0]
    return Failure(failure.seed, f"not so in a replay, a bug of the exploring:\n{failure.story}")


EXHAUSTIVE = Exhaustive()
