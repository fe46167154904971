"""A member whose client has lost all brokers, and how it finds them again."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tests.torture.schedules.ends import BrokenError

if TYPE_CHECKING:
    from tests.torture.schedules.world import World

_WITHIN_S = 60.0


def let_the_blind_see(world: World) -> None:
    """Another client takes its place in bounded time, or `BrokenError`: nothing else fixes it."""
    give_up_at_s = world.fake.clock.now_s() + _WITHIN_S
    while blind := [each.name for each in world.group.players if each.consumer.blind]:
        if world.fake.clock.now_s() >= give_up_at_s:
            raise BrokenError(f"StaysBlind: {', '.join(blind)}, after {_WITHIN_S:g} s")
        world.turn_all()
