"""The layer: a seed draws what happens to both lines, and all must hold in the end."""

import random

from tests.torture.layer import Counts, Seeded
from tests.torture.retry_lines.judgement import broken
from tests.torture.retry_lines.world import MOVES, World, draw_setting, step

_SHORTEST, _LONGEST = 8, 40


def play(seed: int) -> Counts:
    """Raises `AssertionError` with what happened and what is broken."""
    rng = random.Random(seed)
    world = World(draw_setting(rng), rng)
    world.begin()
    names = rng.choices(list(MOVES), list(MOVES.values()), k=rng.randint(_SHORTEST, _LONGEST))
    for name in ("produce", *names):
        step(world, name)
    world.end()
    found = list(broken(world))
    assert not found, "\n".join([str(world.setting), " ".join(world.story), *found])
    world.counts["attempts"] += len(world.lines.attempts())
    world.counts["returned"] += len(world.lines.returned())
    world.counts["hops"] += len(world.lines.waiting())
    world.counts["dead letters"] += len(world.lines.letters())
    world.counts["in one topic"] += world.setting.on_expired is not None
    return world.counts


RETRY_LINES = Seeded("retry-lines", "plays", 40, 50_000, play, chunk=10)
