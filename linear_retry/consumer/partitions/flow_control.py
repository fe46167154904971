"""How do partitions stand still, and how do they go on at the right offset?"""

from __future__ import annotations

from collections.abc import Callable, Iterable

from linear_retry.consumer.state import Parts
from linear_retry.events import Assigned, Lost, PartitionRevived
from linear_retry.kafka import KafkaError, KafkaException
from linear_retry.scope import Partition, Scope


class FlowControl:
    """Pause, resume, seek and re-assign, in the orders that keep every message."""

    def __init__(self, parts: Parts) -> None:
        self._parts = parts

    def is_paused(self, partition: Partition) -> bool:
        """Whether a circuit is open over it, or what comes next in it cannot be read."""
        return self._parts.circuits.stops(partition) or self._parts.unreadable.stops(partition)

    def pause(self, scope: Scope) -> None:
        """Everything in scope stands still, at its first unhandled offset.

        Pause, then seek: the other order loses the seek (librdkafka #3471). What has been read
        ahead is gone from librdkafka's view, so each partition is sought, not just the failed one.
        """
        parts = self._parts
        parts.read_ahead.drop(scope.covers)
        parts.read_ahead.start_small()
        partitions = self._owned(scope.covers)
        self._each(parts.client.pause, partitions)
        self.seek(partitions)

    def resume(self, scope: Scope) -> None:
        """Everything in scope goes on.

        Resume, *then* seek: so librdkafka fetches at once (1 ms); a resume alone, or after the
        seek, takes up to a second.
        """
        unreadable = self._parts.unreadable
        partitions = [key for key in self._owned(scope.covers) if not unreadable.stops(key)]
        self._each(self._parts.client.resume, partitions)
        self.seek(partitions)

    def apply_pause_state(self, partitions: Iterable[Partition]) -> None:
        """Newly assigned: paused or not as the state says (`is_paused`), each one explicitly.

        The pause flag survives revoke and re-assignment (confluent-kafka-go #193): what is not
        resumed here may stay paused for ever.
        """
        stopped = [partition for partition in partitions if self.is_paused(partition)]
        going = [partition for partition in partitions if not self.is_paused(partition)]
        self._each(self._parts.client.pause, stopped)
        self._each(self._parts.client.resume, going)

    def reposition(self) -> None:
        """After a torn read: every partition is fetched again from its own next offset."""
        self._parts.read_ahead.restored()
        partitions = self._parts.assignment.partitions
        self.seek(partitions)
        unknown = [p for p in partitions if p in self._parts.assignment and self._next(p) is None]
        for partition in unknown[:1] if self._parts.client.restarts_all else unknown:
            self.reassign(partition)

    def seek(self, partitions: Iterable[Partition]) -> None:
        """To each one's first unhandled offset. Where nothing was delivered yet, nothing is done.

        A seek that fails must not be passed over, the next resume would skip the failed message:
        the partition begins anew there, or is given up.
        """
        for partition in partitions:
            if self._parts.unreadable.stops(partition):
                continue  # librdkafka may refuse; it is assigned anew when its time has come
            if partition not in self._parts.assignment:
                continue  # given up a moment ago: librdkafka had refused to pause or resume it
            self._parts.assignment.expect(partition, self._parts.clock.now_s())
            offset = self._next(partition)
            if offset is None:
                continue
            try:
                self._parts.client.seek(partition, offset)
            except KafkaException as error:
                self._mend(partition, error)

    def reassign(self, partition: Partition, *, keep_ahead: bool = False) -> None:
        """Begin anew at the first unhandled offset, or where `auto.offset.reset` says.

        An eager assignment is replaced whole, so there all partitions begin anew.
        """
        parts = self._parts
        starts, assigned = parts.offsets.starts(), parts.client.assignment()
        if parts.client.restarts_all:
            # What we gave up and librdkafka still has must not fall out of its assignment.
            # In order: a schedule of faults is then the same each time.
            starts = dict.fromkeys(sorted(assigned)) | starts
        elif partition not in assigned:  # of a fenced member: the next poll raises that
            self.mark_lost([partition], "not assigned when it was to begin anew")
            return
        again = tuple(starts) if parts.client.restarts_all else (partition,)
        parts.client.reassign(partition, starts)
        parts.read_ahead.drop(lambda key: key in again and not (key == partition and keep_ahead))
        owned = [key for key in again if key in parts.assignment]
        for key in owned:
            parts.assignment.expect(key, parts.clock.now_s())
        self.apply_pause_state(owned)

    def revive(self, partition: Partition, reason: str) -> None:
        """It stands still with messages to read, or lost its place: begin anew, and say so."""
        offset = self._next(partition)
        self.reassign(partition)
        if partition in self._parts.assignment:
            self._parts.emit(PartitionRevived(*partition, offset=offset, reason=reason))

    def mark_lost(self, partitions: Iterable[Partition], reason: str) -> None:
        """These may be another member's by now: nothing of them is handled or committed."""
        gone = [partition for partition in partitions if partition in self._parts.assignment]
        if not gone:
            return
        self.forget(gone)
        self._parts.assignment.mark_lost(gone, self._parts.clock.now_s())
        self._parts.client.member.note_lost()
        self._parts.emit(Lost(tuple(gone), reason))

    def reclaim(self, partitions: Iterable[Partition]) -> None:
        """Given up by us, taken by nobody, still assigned: ours again, from what is committed."""
        assigned = self._parts.client.assignment()
        for partition in partitions:
            self._parts.assignment.drop([partition])
            if partition in assigned:
                self._parts.assignment.take([partition], self._parts.clock.now_s())
                self._parts.offsets.begin([partition])
                # Who follows the events must not take it for another's: `Lost` was said of it.
                self._parts.emit(Assigned((partition,)))
                self.revive(partition, "given up, and still assigned")

    def forget(self, partitions: Iterable[Partition]) -> None:
        """Drop what is kept of them; their circuits stay until `retry_at`."""
        gone = frozenset(partitions)
        parts = self._parts
        parts.assignment.drop(gone)
        parts.offsets.forget(gone)
        parts.circuits.drop_held(gone)
        parts.read_ahead.drop(gone.__contains__)
        parts.unreadable.forget(gone)

    # -- inside ----------------------------------------------------------------------------

    def _owned(self, covers: Callable[[Partition], bool]) -> list[Partition]:
        return [partition for partition in self._parts.assignment.partitions if covers(partition)]

    def _next(self, partition: Partition) -> int | None:
        return self._parts.offsets.next_offset(partition)

    def _each(
        self, command: Callable[[Iterable[Partition]], None], partitions: list[Partition]
    ) -> None:
        if not partitions:
            return
        try:
            command(partitions)
        except KafkaException as error:
            # One that is not assigned any more makes librdkafka refuse the call for all of them.
            self._each_alone(command, partitions, error)

    def _each_alone(
        self,
        command: Callable[[Iterable[Partition]], None],
        partitions: list[Partition],
        error: KafkaException,
    ) -> None:
        assigned = self._parts.client.assignment()
        self.mark_lost([p for p in partitions if p not in assigned], f"not assigned: {error}")
        for partition in partitions:
            if partition in assigned:
                command([partition])

    def _mend(self, partition: Partition, error: KafkaException) -> None:
        if error.args[0].code() == KafkaError._UNKNOWN_PARTITION:
            self.mark_lost([partition], f"not assigned: {error}")
        elif partition in self._parts.client.assignment():
            self.revive(partition, f"a seek failed: {error}")
        else:
            self.mark_lost([partition], f"not assigned: {error}")
