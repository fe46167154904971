"""Steps that wait for a member to be inside a state."""

from collections import Counter
from collections.abc import Callable
from dataclasses import replace

from tests.torture.schedules.group import PlayedGroup
from tests.torture.schedules.players import Player
from tests.torture.schedules.schedule import State, Step
from tests.torture.schedules.struck import cell

_OF_CIRCUITS: frozenset[State] = frozenset({"closed", "open", "half-open", "committing"})
"""Those that are looked up; whoever runs inside a member knows the others."""
_MIDWAY: frozenset[State] = frozenset({"half-open"})
"""Of those the one that is a moment of its own in the midst of a turn."""


class Strikes:
    """Counts the state of every step that is done."""

    def __init__(
        self, group: PlayedGroup, counts: Counter[str], act: Callable[[Step], None]
    ) -> None:
        """`act` does a step."""
        self._group = group
        self._counts = counts
        self._act = act
        self._waiting: dict[State, list[Step]] = {}

    def __bool__(self) -> bool:
        """Whether any waits."""
        return bool(self._waiting)

    def wait_for(self, state: State) -> bool:
        """Whether any waits for that."""
        return state in self._waiting

    def forget(self) -> None:
        """From here on nothing strikes inside."""
        self._waiting.clear()

    def take(self, step: Step) -> None:
        """Do it, or have it wait."""
        if step.inside is not None:
            self._waiting.setdefault(step.inside, []).append(step)
            return
        for state in {self._state_of(player) for player in self._group.players}:
            self._count(step, state)
        self._act(step)

    def moment(self, player: Player, state: State | None, *, midway: bool) -> None:
        """This one acts, and is in this state; None: in that of its circuit.

        `midway`: in the turn. What is done to a circuit, and said of it, is one moment then.
        """
        player.sends |= state == "waiting for a letter"
        if not self._waiting:
            return
        if state is None:
            # Of a hundred moments in a turn most are of no interest, and need not be looked up.
            if (_MIDWAY if midway else _OF_CIRCUITS).isdisjoint(self._waiting):
                return
            state = self._state_of(player)
            if midway and state not in _MIDWAY:
                return
        steps = self._waiting.get(state)
        if steps:
            self._chance(steps, state, player)

    def _chance(self, steps: list[Step], state: State, player: Player) -> None:
        step = steps[0]
        if step.skip:
            steps[0] = replace(step, skip=step.skip - 1)
            return
        del steps[0]
        if not steps:
            del self._waiting[state]
        self._count(step, state)
        before_s = self._group.fake.clock.now_s()
        try:
            self._act(step)
        finally:
            if state != "in the handler" and not player.sends:  # which have their time
                self._group.witness.idle(player.name, before_s)

    def _count(self, step: Step, state: State) -> None:
        self._counts[cell(step.name, state, self._group.pausing)] += 1

    def _state_of(self, player: Player) -> State:
        client = player.parts.client
        if any(client.awaits_commit(partition) for partition in self._group.visible):
            return "committing"
        states = {view.state for view in player.circuits.views.values()}
        return "half-open" if "half-open" in states else "open" if "open" in states else "closed"
