"""What happens when another client takes the place of one that cannot go on?"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from linear_retry.consumer.partitions.delivery_filter import Gate
from linear_retry.consumer.state import Parts
from linear_retry.consumer.watchdogs.instance_id import TakenName
from linear_retry.events import ClientReplaced, Lost
from linear_retry.kafka.consumer.fatal_errors import is_name_taken
from linear_retry.scope import Partition


class Renewal:
    """Makes it join the group as a new member, with nothing of the old one's."""

    def __init__(
        self,
        parts: Parts,
        gate: Gate,
        drop: Callable[[Sequence[Partition]], None],
        taken: TakenName,
    ) -> None:
        """`drop` forgets what is kept of partitions, and circuits with nothing left to probe."""
        self._parts = parts
        self._gate = gate
        self._drop = drop
        self._taken = taken

    def look(self) -> None:
        """Renew a client that has told the gate that it is of no use any more.

        Raises `FencedError` where its name stays another member's.
        """
        useless = self._gate.useless
        if useless is None:
            if self._parts.client.was_member:
                self._taken.forget()
        elif not is_name_taken(useless):
            self.renew(f"the old one cannot join any more: {useless.str()}")
        elif self._taken.may_try(useless):
            self._parts.client.renew()
            self._gate.forget_errors()

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
        parts.emit(ClientReplaced(reason))
