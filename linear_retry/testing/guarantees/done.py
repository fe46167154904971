"""Which messages are done?"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator
from typing import Any

from linear_retry import events
from linear_retry.scope import Partition
from linear_retry.testing.event_log import Ended, Entry, Place, Said


class Done:
    """What is handled, dead-lettered, skipped, passed over, or gone by retention."""

    def __init__(self) -> None:
        self._offsets: dict[Partition, set[int]] = defaultdict(set)

    def feed(self, entry: Entry) -> None:
        """What happened next."""
        for topic, number, offset in done_by(entry):
            self._offsets[topic, number].add(offset)

    def in_partition(self, partition: Partition) -> set[int]:
        """The offsets; not a copy."""
        return self._offsets[partition]


def done_by(entry: Entry) -> Iterator[Place]:
    """What this one entry says is done."""
    match entry:
        case Ended(_, _, place, "done"):
            yield place
        case Said(_, _, events.DeadLettered() | events.Skipped() | events.PassedOver() as event):
            yield place_of(event)
        case Said(_, _, events.DataLost() as event):
            until = event.offset + 1 if event.next_offset is None else event.next_offset
            for offset in range(event.offset, until):
                yield event.topic, event.partition, offset


def place_of(event: Any) -> Place:
    """Of an event about one message."""
    return event.topic, event.partition, event.offset
