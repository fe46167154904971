"""The exploration finds what is wrong, and passes over nothing that matters."""

import math
import random
from collections import defaultdict
from collections.abc import Callable, Iterator
from itertools import product
from typing import Any, get_args

import pytest

from linear_retry.consumer.lanes.in_memory import InMemory
from linear_retry.consumer.lanes.lane_loop import LaneLoop
from linear_retry.consumer.partitions.flow_control import FlowControl
from linear_retry.consumer.partitions.polling import OffsetCheck
from linear_retry.retry.circuits import Circuits
from linear_retry.scope import Partition, Scope, ScopeKind
from tests.consumer.group import Protocol
from tests.torture.exhaustive import layer, left_out, small_world
from tests.torture.exhaustive.exploring import Explorer, Reached, play
from tests.torture.exhaustive.fingerprint import fingerprint
from tests.torture.exhaustive.layer import EXHAUSTIVE, Search
from tests.torture.exhaustive.shapes import (
    KEYS,
    MOST_STATES,
    SHAPES,
    SHORT_DEPTHS,
    THREE,
    TWO,
    name_of,
)
from tests.torture.exhaustive.small_steps import enabled, take
from tests.torture.exhaustive.small_world import BrokenError, World
from tests.torture.exhaustive.snapshot import Snapshot
from tests.torture.exhaustive.ways import STEPS, Way
from tests.torture.layer import Tally

WORLDS = range(len(SHAPES))
BY_KEY = SHAPES.index(KEYS[0])
_POLL = "poll, 0 before 1 before 2"


def some_way(world: World, number: int, rng: random.Random, length: int) -> Way:
    """At most `length` steps at random, taken in `world`, with no fault set in vain."""
    way = Way(number)
    for _ in range(length):
        here = Snapshot(world)
        step = rng.choice(list(enabled(world)))
        take(world, step)
        if world.in_vain:
            here.restore()
        else:
            way = way.then(step)
    return way


def place_of(name: str) -> int:
    return [str(step) for step in STEPS].index(name)


def search(worlds: list[int], depth: int) -> Tally:
    """In this process, where what is planted is seen."""
    explorer = Explorer()

    def expand(chunks: Iterator[list[int]]) -> Iterator[Reached]:
        return map(explorer.expand, chunks)

    found = Tally()
    for tally in Search(dict.fromkeys(worlds, depth)).run(expand):
        found.add(tally)
    return found


@pytest.mark.parametrize("number", WORLDS)
def test_a_seed_says_the_whole_way(number: int) -> None:
    """A way and its seed are inverse, also where the way has no step, or the first one."""
    rng = random.Random(number)
    for length in range(11):
        way = Way(number, tuple(rng.randrange(len(STEPS)) for _ in range(length)))
        assert way == Way.of(way.seed)
    assert Way(number, (0,)) == Way.of(Way(number, (0,)).seed)


@pytest.mark.parametrize(
    ("seed", "message"),
    [
        (len(SHAPES), "is of the world"),
        ((len(STEPS) + 1) * 32, "no sequence of steps"),
        (Way(0, (place_of("leak 0"),)).seed, "step 1, leak 0, makes none"),  # nothing is paused
    ],
)
def test_a_seed_of_no_way_is_no_replay(seed: int, message: str) -> None:
    """One sentence says why, instead of a story of something that cannot be."""
    with pytest.raises(ValueError, match=message):
        EXHAUSTIVE.replay(seed)


def test_a_replay_is_one_way() -> None:
    """Also the shortest, whose number is that of its world."""
    assert [1] == [part.done for part in EXHAUSTIVE.replay(Way(2).seed)]


def test_the_worlds_have_all_pairs_and_three_partitions() -> None:
    """Each scope in each protocol, in the short form too, and three partitions of each scope that
    pauses partitions."""
    pairs = {(shape.scope, shape.protocol) for shape in (SHAPES[world] for world in SHORT_DEPTHS)}
    by_key = {("key", shape.protocol) for shape in KEYS}
    assert pairs == by_key | {*product(get_args(ScopeKind), get_args(Protocol))}
    assert {*get_args(ScopeKind)} == {shape.scope for shape in THREE}
    assert {*get_args(Protocol)} == {protocol for _, protocol in by_key}
    assert 1_000_000 >= sum(MOST_STATES[: -len(KEYS)]) > 990_000
    assert len(SHAPES) == len(MOST_STATES)


def test_what_is_cut_off_is_reported(monkeypatch: pytest.MonkeyPatch) -> None:
    """A world whose part of the states is used up is explored no further; that is reported."""
    monkeypatch.setattr(layer, "MOST_STATES", (50,) * len(SHAPES))
    counts = search([0, 1], 6).counts
    assert [3, 3] == [counts[f"{name_of(world)}: depth"] for world in (0, 1)]
    assert all(counts[f"{name_of(world)}: states cut off"] > 0 for world in (0, 1))


@pytest.mark.parametrize("number", WORLDS)
def test_a_restored_world_goes_on_as_a_new_one(number: int) -> None:
    """Whatever was done after a snapshot, the restored world has the state, and the future, of a
    world that has come there by itself."""
    rng = random.Random(number)
    explorer = Explorer()
    for _ in range(4):
        way = some_way(World(SHAPES[number]), number, rng, rng.randint(3, 9))
        restored, here = explorer.world_at(way)
        for _ in some_end(restored, rng):
            pass
        here.restore()
        fresh = World(SHAPES[number])
        for step in way.steps:
            take(fresh, step)
        assert fingerprint(fresh) == fingerprint(restored)
        for _ in zip(fresh.finishing(), restored.finishing(), strict=True):
            assert fingerprint(fresh) == fingerprint(restored)


def some_end(world: World, rng: random.Random) -> Iterator[None]:
    for _ in range(3):
        take(world, rng.choice(list(enabled(world))))
        yield
    yield from world.finishing()


def test_what_cannot_be_restored_is_refused() -> None:
    """A type whose content nobody can see is no part of a world that goes back."""
    with pytest.raises(TypeError, match="nobody knows"):
        Snapshot([iter([1, 2])])


@pytest.mark.parametrize("number", WORLDS)
def test_what_is_chosen_at_the_start_never_changes(number: int) -> None:
    """What the fingerprint leaves out as chosen at the start is the same in every state."""
    rng = random.Random(number)
    for _ in range(3):
        world = World(SHAPES[number])
        at_start = {
            (id(thing), name): (thing, shown(getattr(thing, name)))
            for thing in Snapshot(world).met.values()
            for name in left_out.CHOSEN.get(type(thing), ())
        }
        assert at_start
        some_way(world, number, rng, 10)
        for (_, name), (thing, before) in at_start.items():
            assert before == shown(getattr(thing, name)), f"{thing}.{name}"


def shown(held: object) -> object:
    """Equal as long as nothing was changed; an object that is not compared by content is itself."""
    return held.copy() if isinstance(held, dict | list | set) else held


@pytest.mark.parametrize(
    ("number", "depth"),
    [(0, 4), (4, 3), (8, 3), (len(TWO), 3), (11, 3), (len(TWO) + len(THREE), 2)],
)
def test_each_state_is_found_though_each_is_gone_on_from_once(number: int, depth: int) -> None:
    """Without pruning any duplicate, all sequences of so many steps come to the same states."""
    explorer, all_ways = Explorer(), [Way(number)]
    found: set[bytes] = set()
    for _ in range(depth):
        further = []
        for way in all_ways:
            world, here = explorer.world_at(way)
            for step in list(enabled(world)):
                here.restore()
                take(world, step)
                if not world.in_vain:
                    found.add(fingerprint(world)[0])
                    further.append(way.then(step))
        all_ways = further
    known = states(Explorer(), number, depth, 1)
    assert found == known
    assert len(known) < len(all_ways)


@pytest.mark.parametrize(
    ("number", "depth"), [(0, 4), (4, 4), (8, 4), (9, 3), (11, 3), (12, 2), (16, 3)]
)
def test_it_does_not_matter_which_way_stands_for_a_state(number: int, depth: int) -> None:
    """Gone on from by the last way found instead of the first, the states reached are the same."""
    first, last = Explorer(), Explorer()
    assert states(first, number, depth, 1) == states(last, number, depth, -1)


def states(explorer: Explorer, number: int, depth: int, direction: int) -> set[bytes]:
    level, known = [Way(number).seed], set()
    for _ in range(depth):
        found = explorer.expand(level[::direction]).states
        known |= {state.fingerprint for state in found}
        level = [state.seed for state in found]
    return known


@pytest.mark.parametrize("number", WORLDS)
def test_the_same_fingerprint_means_the_same_future(number: int) -> None:
    """Of states with one fingerprint, reached by different ways, every step leads to the same."""
    rng, by_fingerprint = random.Random(number), defaultdict(list)
    explorer = Explorer()
    for _ in range(20):
        way = Way(number)
        for step in some_way(World(SHAPES[number]), number, rng, 6).steps:
            way = way.then(step)
            world, _ = explorer.world_at(way)
            by_fingerprint[fingerprint(world)[0]].append(way)
    twice = [sorted(set(ways), key=lambda way: way.seed) for ways in by_fingerprint.values()]
    pairs = [(ways[0], ways[-1]) for ways in twice if len(ways) > 1][-2:]
    assert pairs
    for one, other in pairs:
        assert futures(explorer, one) == futures(explorer, other), (one.seed, other.seed)


def futures(explorer: Explorer, way: Way) -> set[object]:
    """What follows from there, for two steps, whatever partitions are called."""
    found: set[object] = set()
    world, here = explorer.world_at(way)
    for step in list(enabled(world)):
        here.restore()
        take(world, step)
        after, then = fingerprint(world)[0], Snapshot(world)
        for next_step in list(enabled(world)):
            then.restore()
            take(world, next_step)
            found.add((STEPS[step].verb, after, STEPS[next_step].verb, fingerprint(world)[0]))
    return found


@pytest.mark.parametrize("number", WORLDS)
def test_what_was_seen_stands_only_as_long_as_it_is_so(number: int) -> None:
    """A world that was looked at after each step has the fingerprint of one that never was."""
    rng = random.Random(number)
    world = World(SHAPES[number])
    taken: list[int] = []
    for _ in range(30):
        taken.append(rng.choice(list(enabled(world))))
        take(world, taken[-1])
        seen = fingerprint(world)
    never = World(SHAPES[number])
    for step in taken:
        take(never, step)
    assert seen == fingerprint(never)
    world.seen_within.clear()
    assert seen == fingerprint(world)


def test_worlds_are_distinguished() -> None:
    """States of different worlds are never taken for the same."""
    assert len(SHAPES) == len({fingerprint(World(shape))[0] for shape in SHAPES})


def let_leaks_through(patch: pytest.MonkeyPatch) -> None:
    """The gate does not look whether the partition's circuit is open."""
    stops, accept = Circuits.stops, OffsetCheck.accept

    def blind(offset_check: OffsetCheck, *arrival: Any) -> bool:
        patch.setattr(Circuits, "stops", lambda *_: False)
        accepted = accept(offset_check, *arrival)
        patch.setattr(Circuits, "stops", stops)
        return accepted

    patch.setattr(OffsetCheck, "accept", blind)


def probe_at_once(patch: pytest.MonkeyPatch) -> None:
    """A circuit is due before its time."""

    def note_changed(circuits: Circuits[Any]) -> None:
        circuits.all_closed = not circuits._open
        circuits.next_retry_at_s = math.inf if circuits.all_closed else 0.0

    patch.setattr(Circuits, "_note_changed", note_changed)
    patch.setattr(Circuits, "due", lambda circuits, _: [scope for scope, _ in circuits])


def release_without_a_seek(patch: pytest.MonkeyPatch) -> None:
    """Neither stopped nor released partitions are sought."""
    patch.setattr(FlowControl, "seek", lambda *_: None)


def stop_without_a_pause(patch: pytest.MonkeyPatch) -> None:
    """An open circuit pauses nothing, and the delivery filter drops nothing."""
    let_leaks_through(patch)

    def stop(flow_control: FlowControl, scope: Scope) -> None:
        flow_control._read_ahead.drop(scope.covers)
        flow_control._read_ahead.start_small()

    patch.setattr(FlowControl, "pause", stop)


def forget_nothing(patch: pytest.MonkeyPatch) -> None:
    """What was held of a partition that has gone is held on."""
    patch.setattr(Circuits, "drop_held", lambda *_: None)


def never_resume(patch: pytest.MonkeyPatch) -> None:
    """What is assigned while its circuit is closed is not resumed explicitly."""

    def settle(flow_control: FlowControl, partitions: Any) -> None:
        stopped: list[Partition] = [key for key in partitions if flow_control.circuits.stops(key)]
        flow_control._each(flow_control._client.pause, stopped)

    patch.setattr(FlowControl, "apply_pause_state", settle)


def commit_past_what_is_held(patch: pytest.MonkeyPatch) -> None:
    """The commit is the end of what was done, whatever is undone before it."""
    patch.setattr(InMemory, "base", property(lambda read: read.frontier))


def name_nothing_undone(patch: pytest.MonkeyPatch) -> None:
    """A note says that all before its frontier is done."""
    patch.setattr(InMemory, "firsts", lambda *_: {})


def begin_a_key_twice(patch: pytest.MonkeyPatch) -> None:
    """A worker gets messages of a key of which another has some, from before."""
    patch.setattr(LaneLoop, "_is_idle", lambda *_: True)


@pytest.mark.parametrize(
    ("number", "plant", "depth", "broken"),
    [
        (0, let_leaks_through, 5, "NothingEarly"),
        (0, probe_at_once, 3, "NothingEarly"),
        (0, release_without_a_seek, 4, "not all is done"),
        (0, stop_without_a_pause, 3, "NothingWhileOpen"),
        (0, forget_nothing, 4, "not all is done"),
        (0, never_resume, 5, "not all is done"),
        (BY_KEY, probe_at_once, 3, "NothingEarly"),
        (BY_KEY, commit_past_what_is_held, 3, "CommittedOnlyDone"),
    ],
)
def test_what_is_planted_is_found_by_a_shortest_way(
    number: int,
    plant: Callable[[pytest.MonkeyPatch], None],
    depth: int,
    broken: str,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Where a rule of the loop is taken away, the exploration finds a way of the fewest steps to
    what breaks then, and its seed replays that."""
    plant(monkeypatch)
    monkeypatch.setattr(small_world, "FINISHED_WITHIN_S", 10.0)  # an endless end turns so long
    found = search([number], depth)
    ways = [Way.of(failure.seed) for failure in found.failures]
    assert {depth} == {len(way.steps) for way in ways}
    with pytest.raises(BrokenError, match=broken):
        play(ways[0].seed)


@pytest.mark.parametrize(
    ("plant", "steps"),
    [
        (
            name_nothing_undone,
            ("assign 0", "transient 0", _POLL, _POLL, "revoke all", _POLL, "assign 0", _POLL),
        ),
        (begin_a_key_twice, ("assign 0", "slow 0", _POLL, "lose", _POLL, "assign 0", _POLL, _POLL)),
    ],
)
def test_what_is_planted_breaks_a_longer_way_of_keys(
    plant: Callable[[pytest.MonkeyPatch], None],
    steps: tuple[str, ...],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Over a revoke and a loss, and without the plant the same way breaks nothing."""
    way = Way(BY_KEY, tuple(map(place_of, steps)))
    play(way.seed)
    plant(monkeypatch)
    with pytest.raises(BrokenError):
        play(way.seed)


def test_without_a_plant_nothing_is_found() -> None:
    """The same search finds nothing where every rule is there."""
    found = search([0], 5)
    assert [] == found.failures
    assert found.counts["ends"] > 0
    assert found.done == found.counts[f"{name_of(0)}: states"] > 900
