"""The kinds of steps, and what they do."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, TypeAlias

from tests.torture.schedules.schedule import Argument, Kind

if TYPE_CHECKING:
    from tests.torture.schedules.world import World

Act: TypeAlias = Callable[..., None]


class Kinds:
    """The kinds by name, in the order of their definition, each with what it does in a world."""

    def __init__(self) -> None:
        self.acts: dict[str, Act] = {}
        self.all: list[Kind] = []

    def add(
        self,
        *,
        weight: int = 1,
        strikes: bool = True,
        essential: bool = False,
        **ranges: Sequence[Argument],
    ) -> Callable[[Act], Act]:
        """Decorates `act(world, ...)`, whose arguments are drawn from these ranges."""

        def added(act: Act) -> Act:
            name = act.__name__
            self.acts[name] = act
            self.all.append(Kind(name, ranges, weight, strikes, essential))
            return act

        return added

    def act(self, world: World, name: str, arguments: dict[str, Argument]) -> None:
        self.acts[name](world, **arguments)
