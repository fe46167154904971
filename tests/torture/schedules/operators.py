"""The operators of a play: what they are answered is true, and nothing is done unasked."""

from collections.abc import Iterable, Iterator
from concurrent.futures import Future
from dataclasses import dataclass
from typing import Literal, TypeAlias

from linear_retry import events
from linear_retry.consumer.ownership.requests import GiveUp, OperatorRequest, Retry
from linear_retry.retry.case import Blocked
from linear_retry.scope import Partition
from tests.torture.schedules.players import Player

_Place = tuple[str, int, int]
RequestKind: TypeAlias = Literal["retry", "give-up"]
_KINDS: tuple[RequestKind, ...] = ("retry", "give-up")


@dataclass(frozen=True, slots=True)
class _Asked:
    player: Player
    kind: RequestKind
    place: _Place
    answer: Future[bool]


class Operators:
    """What they have asked for, of which member."""

    def __init__(self) -> None:
        self._asked: list[_Asked] = []
        self._of_all: list[tuple[Player, OperatorRequest, Future[bool]]] = []

    def ask_for_held(self, player: Player, kind: RequestKind, *, beside: bool) -> None:
        """All that it holds, or the messages after those."""
        for view in list(player.circuits.views.values()):
            if view.offset is not None:
                key = view.topic or "", view.partition or 0
                self.ask(player, kind, key, view.offset + beside)

    def retry_blocked(self, players: Iterable[Player]) -> None:
        """All that wait for one."""
        for player in players:
            for _, circuit in list(player.circuits):
                if isinstance(circuit.case, Blocked):
                    held = circuit.case.held
                    self.ask(player, "retry", held.partition, held.offset)

    def ask(self, player: Player, kind: RequestKind, key: Partition, offset: int) -> None:
        answer = player.parts.requests.submit(
            Retry((key, offset)) if kind == "retry" else GiveUp((key, offset))
        )
        self._asked.append(_Asked(player, kind, (*key, offset), answer))

    def ask_of_all(self, player: Player, wish: OperatorRequest) -> None:
        """What is about no message: every open circuit, or the limit."""
        self._of_all.append((player, wish, player.parts.requests.submit(wish)))

    def cancel(self) -> None:
        if self._asked:
            self._asked[-1].answer.cancel()

    def violations(self, players: list[Player]) -> Iterator[str]:
        """Of all those that have ever been asked; `players` ended well, or are at work still."""
        for one in self._asked:
            answer, done = one.answer, _done(one.player, one.kind)
            reported = answer.done() and not answer.cancelled() and answer.result(0)
            wanted = f"Operators: {one.kind} of {one.place}"
            if reported and one.place not in done:
                yield f"{wanted} was answered with True, and is not done"
            if one.player in players and not answer.done():
                yield f"{wanted} was never answered"
        for player, wish, answer in self._of_all:
            if player in players and not answer.done():
                yield f"Operators: {wish} was never answered"
        anything = [player for player, _, _ in self._of_all]
        for player in players:
            for kind in _KINDS if player not in anything else ("give-up",):
                asked = {
                    one.place for one in self._asked if (one.player, one.kind) == (player, kind)
                }
                for place in sorted(_done(player, kind) - asked):
                    yield f"Operators: {kind} of {place} was done, and nobody asked for it"


def _done(player: Player, kind: RequestKind) -> set[_Place]:
    """What it did because it was asked to."""
    return {
        (event.topic, event.partition, event.offset)
        for event in player.events
        if (kind == "retry" and isinstance(event, events.RetriedNow))
        or (
            kind == "give-up"
            and isinstance(event, events.DeadLettered)
            and event.reason == "given-up"
        )
    }
