"""Ends a test once everything is done."""

from collections.abc import Callable, Iterable, Mapping

from linear_retry.scope import Partition, Place
from linear_retry.testing.event_log import Entry, EventLog
from linear_retry.testing.guarantees.done import done_by


def when_done(
    log: EventLog, visible: Mapping[Partition, Iterable[int]], then: Callable[[], object]
) -> None:
    """Call `then`, once, when all of `visible` is done: handled, dead-lettered, skipped.

    For `consumer.stop`. Called by whoever writes the entry: in the handler's thread; or at once,
    where all of it is done already.
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
