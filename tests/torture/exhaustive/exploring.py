"""Explores the states that follow from a state, and asks that all gets done from each."""

import gc
import traceback
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

from linear_retry.retry.case import Leaving
from linear_retry.testing import Committed, Violation, broken
from tests.testing.nothing_late import NothingLate
from tests.torture.exhaustive.fingerprint import fingerprint
from tests.torture.exhaustive.shapes import SHAPES
from tests.torture.exhaustive.small_steps import enabled, take
from tests.torture.exhaustive.small_world import FINISHED_WITHIN_S, BrokenError, World
from tests.torture.exhaustive.snapshot import Snapshot
from tests.torture.exhaustive.ways import STEPS, Way
from tests.torture.layer import Counts, Failure

OPEN = "with an open circuit"
HALF_OPEN = "with a half-open circuit"
LETTER = "with a circuit that waits for a letter"

_NOTED_TURNS = 200
"""Of an end: one that takes longer comes to none, and turns a thousand times a second."""


@dataclass(frozen=True, slots=True)
class State:
    """One that was reached by the way of this seed, and `marks`, what is to be counted in it."""

    fingerprint: bytes
    seed: int
    marks: tuple[str, ...]


@dataclass(slots=True)
class Reached:
    """What came of some states, each tried with every step that makes a difference in it."""

    states: list[State] = field(default_factory=list)
    counts: Counts = field(default_factory=Counter)
    failures: list[Failure] = field(default_factory=list)


class Explorer:
    """Goes from state to state in one process. What it has seen before it does not return again."""

    def __init__(self) -> None:
        self._begun: dict[int, tuple[World, Snapshot]] = {}
        self._chain: list[tuple[Way, Snapshot]] = []
        self._known: set[bytes] = set()
        self._alive_s: dict[bytes, float] = {}

    def expand(self, seeds: Iterable[int]) -> Reached:
        """Every step from each of these states."""
        reached = Reached()
        for seed in seeds:
            way = Way.of(seed)
            world, here = self.world_at(way)
            for step in list(enabled(world)):
                here.restore()
                self._try(world, way.then(step), reached)
        return reached

    def world_at(self, way: Way) -> tuple[World, Snapshot]:
        """The state there. From the longest part of the way that was gone before."""
        if way.world not in self._begun:
            begun = World(SHAPES[way.world])
            self._begun[way.world] = begun, Snapshot(begun)
        world, here = self._begun[way.world]
        at = Way(way.world)
        while self._chain and not self._chain[-1][0].leads_to(way):
            self._chain.pop()
        if self._chain:
            at, here = self._chain[-1]
        here.restore()
        for step in way.steps[len(at.steps) :]:
            take(world, step)
            at, here = at.then(step), Snapshot(world)
            self._chain.append((at, here))
        return world, here

    def _try(self, world: World, way: Way, reached: Reached) -> None:
        """The last step of the way, and the end that it comes to where nothing more goes wrong."""
        reached.counts["transitions"] += 1
        try:
            take(world, way.steps[-1])
            if world.in_vain:
                reached.counts["pruned: a fault has struck nothing"] += 1
                return
            seen, renamed = fingerprint(world)
            if seen in self._known:
                reached.counts["duplicates by symmetry" if renamed else "duplicates"] += 1
                return
            self._known.add(seen)
            reached.states.append(State(seen, way.seed, tuple(_marks(world))))
            if not world.arming:  # without what is armed it is a state that was seen before
                self._finish(world, reached)
        except Exception:  # noqa: BLE001  (whatever it is, it is this way's failure)
            reached.failures.append(Failure(way.seed, traceback.format_exc()))

    def _finish(self, world: World, reached: Reached) -> None:
        """To the end, or to where another end has passed by: from there it is known."""
        passed: list[tuple[bytes, float]] = []
        rest_s = 0.0
        for turns, _ in enumerate(world.finishing()):
            if turns > _NOTED_TURNS:
                continue
            seen, _ = fingerprint(world)
            if seen in self._alive_s:
                rest_s = self._alive_s[seen]
                break
            passed.append((seen, world.now_s))
        end_s = world.now_s + rest_s
        if passed and end_s - passed[0][1] > FINISHED_WITHIN_S:
            raise BrokenError(f"not all is done after {FINISHED_WITHIN_S:g} s: {world}")
        self._alive_s.update((seen, end_s - at_s) for seen, at_s in passed)
        reached.counts["ends"] += 1


_explorers: list[Explorer] = []


def expand(seeds: Sequence[int]) -> Reached:
    """In a process of a pool: what it has seen is kept from one call to the next."""
    if not _explorers:
        _explorers.append(Explorer())
        gc.freeze()  # what is there by now stays, and is not to be looked through each time
        gc.disable()
    reached = _explorers[0].expand(seeds)
    gc.collect()
    return reached


def check(seed: int) -> None:
    """Raises `ValueError` where no way has this number."""
    way = Way.of(seed)
    if way.world >= len(SHAPES):
        raise ValueError(f"{seed} is of the world {way.world}, and there are {len(SHAPES)}")
    world = World(SHAPES[way.world])
    for number, place in enumerate(way.steps, 1):
        if place not in [*enabled(world)]:
            raise ValueError(f"{seed} is no way: its step {number}, {STEPS[place]}, makes none")
        try:
            take(world, place)
        except Exception:  # noqa: BLE001  (a way ends where it breaks something: that is its story)
            return


def play(seed: int) -> Counts:
    """One way from its beginning to its end, and every guarantee asked of all of it.

    Raises `BrokenError` with its story.
    """
    way = Way.of(seed)
    world = World(SHAPES[way.world])
    story = [str(world.shape)]
    noted = 0

    def note(step: str) -> None:
        nonlocal noted
        log = world.group.witness.entries
        story.extend([f"  {step}", *(f"      {entry}" for entry in log[noted:])])
        noted = len(log)

    try:
        for place in way.steps:
            try:
                take(world, place)
            finally:
                note(str(STEPS[place]))
        note("nothing more goes wrong")
        for _ in world.finishing():
            pass
        note("the end")
        found = _broken_in_all(world)
        if found:
            raise BrokenError("\n".join(map(str, found)))
    except Exception as error:
        note("until")
        raise BrokenError("\n".join([*story, f"{type(error).__name__}: {error}"])) from error
    return Counter(["ways"])


def _broken_in_all(world: World) -> list[Violation]:
    log = [*world.group.witness.entries, Committed(world.now_s, "", dict(world.committed))]
    return broken(log, world.promised(NothingLate()))


def _marks(world: World) -> Iterable[str]:
    for _, circuit in world.parts.circuits:
        if isinstance(circuit.case, Leaving):
            yield LETTER
        yield OPEN if circuit.state == "open" else HALF_OPEN
