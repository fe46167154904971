"""The fingerprint of a state: equal where two worlds go on alike."""

from functools import cache
from typing import Any

from linear_retry.scope import Partition
from tests.torture.exhaustive.eye import Eye
from tests.torture.exhaustive.small_world import Shape, World


def fingerprint(world: World) -> tuple[bytes, bool]:
    """The same whatever interchangeable partitions are called; and whether others names were given.

    The naming is chosen by what is known of each partition: only where that is the same of two,
    both namings are tried.
    """
    namings = _namings(world)
    digest, naming = min((Eye(world, naming).digest(), naming) for naming in namings)
    return digest, naming != world.partitions


def _namings(world: World) -> list[tuple[Partition, ...]]:
    every = _every_naming(world.shape)
    if len(every) == 1:
        return every
    known = {key: _known_of(world, key) for key in world.partitions}
    least = min([known[key] for key in naming] for naming in every)
    return [naming for naming in every if [known[key] for key in naming] == least]


def _known_of(world: World, key: Partition) -> tuple[Any, ...]:
    """Some of what is seen of one partition: the same in all states that look the same."""
    fetch = world.fetching.assigned.get(key)
    return (
        world.committed[key],
        world.armed.failing.get(key, ""),
        key in world.membership.target,
        key in world.fetching._paused,
        key in world.parts.assignment,
        -9999 if fetch is None or fetch.next_offset is None else fetch.next_offset,
    )


@cache
def _every_naming(shape: Shape) -> list[tuple[Partition, ...]]:
    return shape.namings
