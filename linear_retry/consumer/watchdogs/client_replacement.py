"""What happens when another client takes the place of one that cannot go on?"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from linear_retry.consumer.partitions.delivery_filter import DeliveryFilter
from linear_retry.consumer.state import Parts
from linear_retry.consumer.watchdogs.instance_id import InstanceIdWait
from linear_retry.events import ClientReplaced, Lost
from linear_retry.kafka.consumer.fatal_errors import is_name_taken
from linear_retry.scope import Partition


class ClientReplacement:
    """Makes it join the group as a new member, with nothing of the old one's."""

    def __init__(
        self,
        parts: Parts,
        delivery_filter: DeliveryFilter,
        drop: Callable[[Sequence[Partition]], None],
        taken: InstanceIdWait,
    ) -> None:
        """`drop` forgets what is kept of partitions, and circuits with nothing left to probe."""
        self._parts = parts
        self._delivery_filter = delivery_filter
        self._drop = drop
        self._taken = taken

    def tick(self) -> None:
        """Renew a client that has told the gate that it is of no use any more.

        Raises `FencedError` where its name stays another member's.
        """
        useless = self._delivery_filter.useless
        if useless is None:
            if self._parts.client.member.was_member:
                self._taken.forget()
        elif not is_name_taken(useless):
            self.renew(f"the old one cannot join any more: {useless.str()}")
        elif self._taken.may_try(useless):
            self._parts.client.renew()
            self._delivery_filter.forget_errors()

    def renew(self, reason: str) -> None:
        """Not inside a callback of the old client, nor while one of its messages is handled."""
        parts = self._parts
        had = parts.assignment.partitions
        parts.client.renew()
        self._delivery_filter.forget_errors()
        self._drop(had)
        if had:
            parts.emit(Lost(had, reason))
        parts.assignment.forget_doubts()
        parts.emit(ClientReplaced(reason))
