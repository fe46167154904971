"""Which messages are done?"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from typing import Any

from linear_retry import events
from linear_retry.scope import Partition
from linear_retry.testing.event_log import Begun, Ended, Entry, Place, Said


class Done:
    """What is handled, dead-lettered, skipped, passed over, or gone by retention."""

    def __init__(self) -> None:
        self._offsets: dict[Partition, set[int]] = defaultdict(set)
        self._lost_from: dict[Partition, int] = {}

    def feed(self, entry: Entry) -> None:
        """What happened next."""
        for topic, number, offset in done_by(entry):
            self._offsets[topic, number].add(offset)
        match entry:
            case Said(_, _, events.DataLost(topic, number, offset, None)):
                self._lost_from[topic, number] = offset
            case Begun(_, _, (topic, number, offset)) if (topic, number) in self._lost_from:
                # It was said to be lost up to nobody knew where: up to what is read next.
                self._offsets[topic, number].update(
                    range(self._lost_from.pop((topic, number)), offset)
                )

    def in_partition(self, partition: Partition) -> set[int]:
        """The offsets; not a copy."""
        return self._offsets[partition]


def done_by(entry: Entry) -> Sequence[Place]:
    """What this one entry says is done. Most say nothing of it: asked for each entry of a log."""
    if isinstance(entry, Ended):
        return (entry.place,) if entry.how == "done" else ()
    return _done_by_event(entry.event) if isinstance(entry, Said) else ()


def _done_by_event(event: events.Event) -> Sequence[Place]:
    match event:
        case events.DeadLettered() | events.Skipped() | events.PassedOver():
            return (place_of(event),)
        case events.DataLost():
            until = event.offset + 1 if event.next_offset is None else event.next_offset
            partition = event.topic, event.partition
            return [(*partition, offset) for offset in range(event.offset, until)]
        case _:
            return ()


def place_of(event: Any) -> Place:
    """Of an event about one message."""
    return event.topic, event.partition, event.offset
