"""Brings a play to the rare states that a step waits for in vain."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from tests.torture.schedules.world import World

_TURNS_TO_A_LETTER = 4
_TURNS_TO_AN_OPENING = 3


def give_a_last_chance(world: World) -> None:
    """A letter, a circuit that waits for its first message, an end: where any is waited for."""
    if world.strikes.wait_for("waiting for a letter"):
        _refuse_what_comes(world)
    if world.strikes.wait_for("half-open"):
        _open_and_revoke(world)
    if world.strikes.wait_for("closing"):
        world.have_someone()
        world.stop(world.member(0))


def _refuse_what_comes(world: World) -> None:
    for topic, number in world.group.partitions:
        end = world.fake.topics[topic].partitions[number].end
        world.group.dependency.refuses.add((number, end))
        world.group.produce((topic, number))
    for _ in range(_TURNS_TO_A_LETTER):
        world.turn_all()


def _open_and_revoke(world: World) -> None:
    """Then circuits wait for their first message, once `retry_at` has passed."""
    world.group.dependency.down = True
    for partition in world.group.partitions:
        world.group.produce(partition)
    for _ in range(_TURNS_TO_AN_OPENING):
        world.turn_all()
    for player in world.group.players:
        world.fake.revoke(player.consumer)
    world.turn_all()
    world.group.deal((1, 2, 0))
    for _ in range(_TURNS_TO_AN_OPENING):
        world.turn_all()
