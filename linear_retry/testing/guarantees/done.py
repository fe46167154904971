"""Tracks which messages of a log are done."""

from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import TypeAlias

from linear_retry import events
from linear_retry.records.runs import Runs
from linear_retry.scope import Partition, Place
from linear_retry.testing.event_log import AttemptFinished, Entry, EventEmitted, EventLog

Run: TypeAlias = tuple[Partition, int, int]
"""A partition, and a range of its offsets: from, and up to but not including."""


class Done:
    """The messages that are handled, have left the line, are skipped, passed over, or expired.

    Who has left it is dead-lettered, handed over by `Recovery`, or in a retry topic: there it is
    another message, on the retry line.
    """

    def __init__(self) -> None:
        self._offsets: dict[Partition, Runs] = defaultdict(Runs)

    def feed(self, entry: Entry) -> None:
        """Takes the next entry."""
        for partition, begin, end in runs_done_by(entry):
            self._offsets[partition].add_range(begin, end)

    def in_partition(self, partition: Partition) -> Runs:
        """Returns the offsets, without copying."""
        return self._offsets[partition]


def done_by(entry: Entry) -> Iterator[Place]:
    """Yields the messages that this entry reports as done."""
    for partition, begin, end in runs_done_by(entry):
        for offset in range(begin, end):
            yield Place(*partition, offset)


def when_done(
    log: EventLog, visible: Mapping[Partition, Iterable[int]], then: Callable[[], object]
) -> None:
    """Calls `then`, once, when all of `visible` is done: handled, gone from the line, skipped.

    For `consumer.stop`. It is called in the thread that writes the entry, that of the handler; or
    at once, if all of it is done already.
    """
    left: set[Place] = {
        Place(*partition, offset) for partition, found in visible.items() for offset in found
    }
    for entry in log.entries:
        left.difference_update(done_by(entry))
    if not left:
        then()
        return

    def watch(entry: Entry) -> None:
        if left:
            left.difference_update(done_by(entry))
            if not left:
                then()

    log.watch(watch)


def runs_done_by(entry: Entry) -> tuple[Run, ...]:
    """Like `done_by`, as runs: retention may have removed millions. Called for each entry."""
    if isinstance(entry, AttemptFinished):
        return (_run(entry.place),) if entry.outcome == "done" else ()
    return _runs_done_by_event(entry.event) if isinstance(entry, EventEmitted) else ()


def _runs_done_by_event(event: events.Event) -> tuple[Run, ...]:
    match event:
        case events.DeadLettered() | events.SentToRetry() | events.HandedOver():
            return (_run(event.place),)
        case events.ReturnedToSource() | events.Skipped() | events.PassedOver():
            return (_run(event.place),)
        case events.DataLost(topic, partition, offset, next_offset) if offset < next_offset:
            return (((topic, partition), offset, next_offset),)
        case _:
            return ()


def _run(place: Place) -> Run:
    return place[:2], place[2], place[2] + 1
