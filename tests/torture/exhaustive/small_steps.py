"""The steps of a small world."""

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from itertools import permutations
from typing import Any, Generic, TypeVar

from confluent_kafka import KafkaError

from linear_retry import events
from linear_retry.kafka import Message
from linear_retry.retry.case import Blocked, Leaving
from linear_retry.scope import Partition
from tests.torture.exhaustive.small_world import InjectedError, Unit, World
from tests.torture.exhaustive.ways import PARTITIONS, STEPS, Step, Verb

_LATE_ANSWER_S = 2.0
_OTHER = "other"
_ARMING: tuple[Verb, ...] = (
    *("poll", "transient", "permanent", "poll raises", "leak", "commits late", "letter fails"),
    "slow",
)


def enabled(world: World) -> Iterator[int]:
    """The steps that would make a difference now; places in `STEPS`.

    What is to strike in a poll is set right before it: earlier makes no difference.
    """
    orders = _orders(world)
    for place, step in enumerate(STEPS):
        if step.verb not in world.shape.verbs or (world.arming and step.verb not in _ARMING):
            continue
        if step.order in orders if step.verb == "poll" else _may(world, step):
            yield place


def _may(world: World, step: Step) -> bool:
    if step.number is None:
        return _FOR_ALL[step.verb].may(world)
    things = _things(world, step)
    return step.number < len(things) and _FOR_ONE[step.verb].may(world, things[step.number])


def _things(world: World, step: Step) -> Sequence[Any]:
    """What the number of a step is about."""
    return world.units if step.verb in _FOR_UNIT else world.partitions


def take(world: World, place: int) -> None:
    """Raises `BrokenError` where a guarantee does not hold afterwards."""
    step = STEPS[place]
    if step.verb == "poll":
        world.turn(tuple(world.partitions[n] for n in step.order if n < len(world.partitions)))
    elif step.number is None:
        _FOR_ALL[step.verb].act(world)
    else:
        _FOR_ONE[step.verb].act(world, _things(world, step)[step.number])
    world.look()


def _orders(world: World) -> set[tuple[int, ...]]:
    """Those that may bring something else. Only the first counts where one message is taken."""
    places = [n for n, key in enumerate(world.partitions) if _may_speak(world, key)]
    reading = world.parts.read_ahead
    one_only = bool(reading.messages) or reading._batch_size == 1
    begun = [(n, *(m for m in places if m != n)) for n in places]
    chosen = begun if one_only else list(permutations(places))
    every = range(PARTITIONS)
    return {(*order, *(n for n in every if n not in order)) for order in chosen or [()]}


def _may_speak(world: World, key: Partition) -> bool:
    fetch = world.fetching.assigned.get(key)
    if fetch is None or any(key in change.partitions for change in world.membership.changes):
        return key in world.membership.target
    if key in world.fetching._paused and not world.fake.faults.has_leak(key):
        return False
    last = world.group.visible[key][-1]
    return fetch.next_offset is None or fetch.next_offset <= last or not fetch.eof_told


def _target(world: World) -> set[Partition]:
    return set(world.membership.target)


def _assign(world: World, wanted: set[Partition]) -> None:
    world.fake.assign(world.member.consumer, wanted)


def _may_assign_all(world: World) -> bool:
    return len(set(world.partitions) - _target(world)) > 1


def _may_assign(world: World, key: Partition) -> bool:
    return key not in _target(world)


def _may_revoke(world: World, key: Partition) -> bool:
    return key in _target(world) and len(_target(world)) > 1


def _may_withdraw(world: World) -> bool:
    """All that it has, or is about to get."""
    return bool(_target(world))


def _lose(world: World, *, reported: bool) -> None:
    world.fake.faults.lost_as_revoked = not reported
    world.fake.lose(world.member.consumer)
    world.fake.faults.lost_as_revoked = False


def _may_other(world: World, key: Partition) -> bool:
    """Another has it, perhaps before this member knows; and there is something to handle."""
    free = key not in world.fetching.assigned or world.membership.is_lost()
    return free and key not in _target(world) and _undone(world, key)


def _undone(world: World, key: Partition) -> bool:
    return world.committed[key] <= world.group.visible[key][-1]


def _other(world: World, key: Partition) -> None:
    """Another member handles one message and commits."""
    witness = world.group.witness
    world.membership.taken_by_others.add(key)
    witness.listener(_OTHER)(events.Assigned((key,)))
    with witness.attempting(_OTHER, Message(*key, offset=world.committed[key])):
        world.committed[key] += 1
    witness.listener(_OTHER)(events.Revoked((key,)))


def _next_deadline_s(world: World) -> float:
    """The next `retry_at`, or answer, or time to take back what was given up."""
    now_s = world.fake.clock.now_s()
    times = [circuit.retry_at_s for _, circuit in world.parts.circuits]
    times += [due_s for due_s, _, _ in world.fake.clock._actions]
    times += world.parts.assignment._suspect.values()
    return min((time_s for time_s in times if time_s > now_s), default=math.inf)


def _timer(world: World) -> None:
    clock = world.fake.clock
    with world.group.witness.disturbing("the clock jumps"):
        clock.advance(_next_deadline_s(world) - clock.now_s())


def _may_stall(world: World) -> bool:
    return world.left["stall"] > 0 and bool(world.fetching.assigned)


def _stall(world: World) -> None:
    """The handler, or the machine, takes longer than `max.poll.interval.ms`."""
    world.left["stall"] -= 1
    with world.group.witness.disturbing("a stall"):
        world.fake.clock.advance(world.parts.config.settings.max_poll_interval_s + 1)


def _spend(world: World, fault: str) -> None:
    world.left[fault] -= 1
    world.arming = True


def _may_fail(world: World, unit: Unit) -> bool:
    armed = unit in world.armed.failing
    return world.left["exception"] > 0 and not armed and _undone_of(world, unit)


def _undone_of(world: World, unit: Unit) -> bool:
    if isinstance(unit, tuple):
        return _undone(world, unit)
    return any(
        key == unit and place.offset >= world.committed[place[:2]]
        for place, key in world.group.keys.items()
    )


def _transient(world: World, unit: Unit) -> None:
    _spend(world, "exception")
    world.armed.failing[unit] = "transient"


def _permanent(world: World, unit: Unit) -> None:
    _spend(world, "exception")
    world.armed.failing[unit] = "permanent"


def _may_be_slow(world: World, unit: Unit) -> bool:
    is_new = isinstance(unit, bytes) and unit not in world.workers.slow
    return is_new and world.left["slow"] > 0 and _undone_of(world, unit)


def _slow(world: World, unit: Unit) -> None:
    _spend(world, "slow")
    world.workers.slow.add(unit)


def _poll_raises(world: World) -> None:
    _spend(world, "exception")
    world.fake.faults.raise_in_poll(InjectedError("a callback raised"))


def _may_leak(world: World, key: Partition) -> bool:
    """It is paused, or will be where it is assigned to an open circuit."""
    stopped = key in world.fetching._paused or world.parts.circuits.stops(key)
    return world.left["leak"] > 0 and stopped


def _leak(world: World, key: Partition) -> None:
    _spend(world, "leak")
    world.fake.faults.leak(key)


def _commits_late(world: World) -> None:
    _spend(world, "late")
    world.fake.faults.commit_answer_s = _LATE_ANSWER_S
    world.fake.faults.commits_land_late = True


def _may_retry(world: World) -> bool:
    """An operator has something to do, and has not done it yet."""
    blocked = any(isinstance(circuit.case, Blocked) for _, circuit in world.parts.circuits)
    return blocked and world.parts.requests.due_at_s == math.inf


def _may_letter_fail(world: World) -> bool:
    """One may be sent in the next poll."""
    circuits = [circuit for _, circuit in world.parts.circuits]
    waits = any(isinstance(circuit.case, Leaving) for circuit in circuits)
    return world.left["letter"] > 0 and bool(waits or world.armed.failing)


def _letter_fails(world: World) -> None:
    _spend(world, "letter")
    world.fake.faults.fail_delivery(KafkaError._MSG_TIMED_OUT)


@dataclass(frozen=True, slots=True)
class _ForAll:
    may: Callable[[World], bool]
    act: Callable[[World], object]


_T = TypeVar("_T")


@dataclass(frozen=True, slots=True)
class _ForOne(Generic[_T]):
    may: Callable[[World, _T], bool]
    act: Callable[[World, _T], object]


_FOR_ALL: dict[Verb, _ForAll] = {
    "assign all": _ForAll(_may_assign_all, lambda w: _assign(w, set(w.partitions))),
    "revoke all": _ForAll(_may_withdraw, lambda w: w.fake.revoke(w.member.consumer)),
    "revoke all after a message": _ForAll(
        _may_withdraw, lambda w: w.fake.revoke(w.member.consumer, after=1)
    ),
    "lose": _ForAll(_may_withdraw, lambda w: _lose(w, reported=True)),
    "lose, reported as a revoke": _ForAll(_may_withdraw, lambda w: _lose(w, reported=False)),
    "timer": _ForAll(lambda w: _next_deadline_s(w) < math.inf, _timer),
    "stall": _ForAll(_may_stall, _stall),
    "poll raises": _ForAll(lambda w: w.left["exception"] > 0, _poll_raises),
    "commits late": _ForAll(lambda w: w.left["late"] > 0, _commits_late),
    "letter fails": _ForAll(_may_letter_fail, _letter_fails),
    "retry": _ForAll(_may_retry, lambda w: w.group.retry_blocked()),
    "returns": _ForAll(lambda w: bool(w.workers.kept), lambda w: w.workers.kept.clear()),
}
_FOR_UNIT: dict[Verb, _ForOne[Unit]] = {
    "transient": _ForOne(_may_fail, _transient),
    "permanent": _ForOne(_may_fail, _permanent),
    "slow": _ForOne(_may_be_slow, _slow),
}
_FOR_PARTITION: dict[Verb, _ForOne[Partition]] = {
    "assign": _ForOne(_may_assign, lambda w, key: _assign(w, _target(w) | {key})),
    "revoke": _ForOne(_may_revoke, lambda w, key: _assign(w, _target(w) - {key})),
    "leak": _ForOne(_may_leak, _leak),
    "other": _ForOne(_may_other, _other),
}
_FOR_ONE: dict[Verb, _ForOne[Any]] = {**_FOR_UNIT, **_FOR_PARTITION}
