"""The orders to pay, and those that are always rejected."""

from __future__ import annotations

import json
from dataclasses import dataclass

COUNT = 400
PARTITIONS = 4
REJECTED = frozenset({"order-062", "order-291"})  # an expired card stays expired


@dataclass(frozen=True, slots=True)
class Order:
    """One order, and the partition that keeps it in order with its neighbours."""

    order_id: str
    partition: int
    cents: int

    def encode(self) -> bytes:
        """The message's value."""
        return json.dumps({"order": self.order_id, "cents": self.cents}).encode()


def orders(count: int = COUNT, partitions: int = PARTITIONS) -> tuple[Order, ...]:
    """`count` orders, dealt out to the partitions in turn."""
    return tuple(
        Order(f"order-{number:03d}", number % partitions, 500 + 37 * number)
        for number in range(1, count + 1)
    )


def order_id_of(value: bytes | None) -> str:
    """The id in a message's value; ValueError or KeyError where it is no order."""
    return str(json.loads(value or b"")["order"])
