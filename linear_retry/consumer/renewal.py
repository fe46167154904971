"""What happens when another client takes the place of one that cannot go on?"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from linear_retry.consumer.gate import Gate
from linear_retry.consumer.parts import Parts
from linear_retry.events import ClientRenewed, Lost
from linear_retry.scope import Partition


class Renewal:
    """Makes it join the group as a new member, with nothing of the old one's."""

    def __init__(
        self, parts: Parts, gate: Gate, drop: Callable[[Sequence[Partition]], None]
    ) -> None:
        """`drop` forgets what is kept of partitions, and circuits with nothing left to probe."""
        self._parts = parts
        self._gate = gate
        self._drop = drop

    def look(self) -> None:
        """Renew a client that has told the gate that it is of no use any more."""
        if self._gate.useless is not None:
            self.renew(f"the old one cannot join any more: {self._gate.useless.str()}")

    def renew(self, reason: str) -> None:
        """Not inside a callback of the old client, nor while one of its messages is handled."""
        parts = self._parts
        had = parts.ownership.partitions
        parts.client.renew()
        self._gate.forget_errors()
        self._drop(had)
        if had:
            parts.emit(Lost(had, reason))
        parts.ownership.forget_doubts()
        parts.emit(ClientRenewed(reason))
