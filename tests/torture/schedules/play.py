"""A play of one schedule, and its shortest form where a guarantee breaks."""

import re

from linear_retry.testing import Idle
from tests.torture.layer import Counts
from tests.torture.schedules.ends import BrokenError
from tests.torture.schedules.mishaps import MISHAPS
from tests.torture.schedules.moves import MOVES
from tests.torture.schedules.schedule import Schedule, draw
from tests.torture.schedules.shrinking import Shrinking
from tests.torture.schedules.world import World

KINDS = (*MOVES.all, *MISHAPS.all)

_SHOWN_ENTRIES = 60


def play(seed: int) -> Counts:
    """Raises `BrokenError`, or whatever the loop raised that it must not."""
    schedule = draw(seed, KINDS)
    world = World(schedule.setting)
    world.play(schedule)
    return world.counts


def story(seed: int, plays: int) -> str:
    """How the schedule of this seed breaks a guarantee, as shortly as so many plays show."""
    kinds = {kind.name: kind for kind in KINDS}
    shortest = Shrinking(broken_law, kinds, plays).shrink(draw(seed, KINDS))
    world = World(shortest.setting)
    error = _error(world, shortest)
    entries = [f"  {entry}" for entry in world.group.witness.entries if not isinstance(entry, Idle)]
    shown = entries if len(entries) <= _SHOWN_ENTRIES else ["  ...", *entries[-_SHOWN_ENTRIES:]]
    return "\n".join([str(shortest), "what happened:", *shown, "what is broken:", _reported(error)])


def broken_law(schedule: Schedule) -> str | None:
    """Which guarantee it breaks; the names and numbers in it count for nothing."""
    error = _error(World(schedule.setting), schedule)
    if error is None:
        return None
    law = str(error).partition(":")[0] if isinstance(error, BrokenError) else _reported(error)
    return re.sub(r"[\d.]+", "#", law)


def _error(world: World, schedule: Schedule) -> Exception | None:
    try:
        world.play(schedule)
    except Exception as error:  # noqa: BLE001  (whatever it is, it is what breaks)
        return error
    return None


def _reported(error: Exception | None) -> str:
    if error is None or isinstance(error, BrokenError):
        return str(error)
    return f"{type(error).__name__}: {error}"
