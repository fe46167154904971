"""Pauses, resumes, seeks and reassigns partitions, in an order that loses no message."""

import math
from collections.abc import Callable, Iterable, Sequence

from linear_retry.consumer.partitions.assignment import Assignment
from linear_retry.consumer.partitions.offsets import Offsets, StartPositions
from linear_retry.consumer.partitions.read_ahead import ReadAhead
from linear_retry.events import (
    Assigned,
    CircuitClosed,
    Event,
    LeakDropped,
    Lost,
    PartitionRevived,
)
from linear_retry.kafka import KafkaError, KafkaException, Message
from linear_retry.kafka.consumer.client import Client
from linear_retry.retry.case import Failing, Held
from linear_retry.retry.circuits import Circuits
from linear_retry.scope import Partition, Scope

_ASK_AGAIN_S = 0.5


class FlowControl:
    """Pauses, resumes, seeks and reassigns partitions; nothing else does.

    `due_at_s` is when it is to be asked where new partitions start (`place`).
    """

    def __init__(
        self,
        client: Client,
        assignment: Assignment,
        offsets: Offsets,
        circuits: Circuits[Message],
        read_ahead: ReadAhead,
        emit: Callable[[Event], None],
        *,
        start_positions: StartPositions | None = None,
    ) -> None:
        self._client = client
        self._assignment = assignment
        self.offsets = offsets
        self.circuits = circuits
        self._read_ahead = read_ahead
        self._emit = emit
        self._held_back: set[Partition] = set()
        self._start_positions = start_positions
        self._unplaced: set[Partition] = set()
        self.due_at_s = math.inf

    @property
    def held_back(self) -> frozenset[Partition]:
        """The partitions that are paused as enough of them is in memory."""
        return frozenset(self._held_back)

    def is_paused(self, partition: Partition) -> bool:
        """Whether its circuit is open, its next batch cannot be read, or its start is not known."""
        return (
            self.circuits.stops(partition)
            or partition in self._assignment.stopped
            or partition in self._unplaced
        )

    @property
    def pauses_any(self) -> bool:
        """Whether any partition may be paused (`is_paused`)."""
        return (
            not self.circuits.all_closed
            or bool(self._assignment.unreadable)
            or bool(self._unplaced)
        )

    @property
    def unplaced(self) -> frozenset[Partition]:
        """The partitions that are paused as it is not known yet where they start."""
        return frozenset(self._unplaced)

    def is_not_read(self, partition: Partition) -> bool:
        """Whether it is to deliver nothing: it is paused, or enough of it is in memory."""
        return partition in self._held_back or self.is_paused(partition)

    def has_in_memory(self, partition: Partition) -> bool:
        """Whether one of its messages is held or read ahead: a restart would duplicate it."""
        return self.circuits.stops(partition) or self._read_ahead.last_of(partition) is not None

    @property
    def waits_for_keys(self) -> bool:
        """Whether what is in memory may wait for hours, while others of its partition go on."""
        return not self.circuits.pauses

    def next_to_fetch(self, partition: Partition) -> int | None:
        """The offset after those in memory; None if it is not known."""
        last = self._read_ahead.last_of(partition)
        start = self.offsets.starts()[partition] if last is None else last + 1
        try:
            return self._client.committed(partition) if start is None else start
        except KafkaException:
            return None  # it is read again from the committed offset anyway

    def pause(self, scope: Scope) -> None:
        """Pauses everything in scope, at its first unhandled offset.

        Pause, then seek: the other order loses the seek (librdkafka #3471). Every partition must
        be sought, not just the failed one: librdkafka's position is past the read-ahead.
        """
        self._read_ahead.drop(scope.covers)
        self._held_back = {key for key in self._held_back if not scope.covers(key)}
        self._read_ahead.start_small()
        partitions = self._owned(scope.covers)
        self._each(self._client.pause, partitions)
        self.seek(partitions)

    def resume(self, scope: Scope) -> None:
        """Resumes everything in scope, but for what is paused for another reason.

        Resume, *then* seek: librdkafka then fetches at once (1 ms); a resume alone, or after the
        seek, takes up to a second.
        """
        partitions = [key for key in self._owned(scope.covers) if not self.is_paused(key)]
        self._each(self._client.resume, partitions)
        self.seek(partitions)
        self._read_ahead.let_go(scope)

    def hold_back(self, partition: Partition) -> None:
        """Pauses a partition of which enough is in memory; that stays."""
        self._held_back.add(partition)
        self._each(self._client.pause, self._owned(partition.__eq__))

    def let_go(self, partition: Partition) -> None:
        """Resumes a partition that was held back, behind what is in memory.

        Nothing where a circuit is open: that resumes it when it closes. Resume, *then* seek, as in
        `resume`; librdkafka's own position may be behind a message that it dropped at the pause.
        """
        self._held_back.discard(partition)
        if not self.is_paused(partition) and partition in self._assignment:
            self._each(self._client.resume, [partition])
            self.seek([partition])

    def apply_pause_state(self, partitions: Iterable[Partition]) -> None:
        """Pauses or resumes newly assigned partitions, each explicitly, as its state says.

        The pause flag survives revoke and re-assignment (confluent-kafka-go #193): what is not
        resumed here may stay paused for ever.
        """
        paused = [key for key in partitions if self.is_not_read(key)]
        going = [partition for partition in partitions if partition not in paused]
        self._each(self._client.pause, paused)
        self._each(self._client.resume, going)

    def drop_leak(self, partition: Partition, offset: int) -> None:
        """Pauses a partition again after it delivered a message while paused."""
        self._client.pause([partition])
        self._emit(LeakDropped(*partition, offset=offset))

    def hold_probe(self, message: Message, partition: Partition, offset: int) -> bool:
        """Holds this message as the probe if a circuit waits for one, and pauses the rest."""
        scope = self.circuits.wanting_probe(partition)
        if scope is None:
            return False
        epoch = self._assignment.epochs.get(partition) or 0
        self.circuits.hold(scope, Failing(Held(message, partition, offset, epoch)))
        self.pause(scope)
        return True

    def reposition(self) -> None:
        """Seeks every partition to its next offset, after the read-ahead became invalid.

        One that has delivered nothing yet is assigned again.
        """
        self._read_ahead.restored()
        self.seek(self._assignment.partitions)
        placed = [key for key in self._assignment.partitions if key not in self._unplaced]
        self._restart([key for key in placed if self.offsets.next_offset(key) is None])

    def place(self) -> None:
        """Starts new partitions where they are to; asks again for those of which it is not known.

        If asking raises, all stay new.
        """
        new = [key for key in self._assignment.partitions if key in self._unplaced]
        ask = self._start_positions
        found = ask(new) if new and ask is not None else {}
        self._unplaced = {key for key in new if key not in found}
        self.due_at_s = self._assignment.now_s() + _ASK_AGAIN_S if self._unplaced else math.inf
        for partition, offset in found.items():
            if offset is not None:
                self.offsets.start_at(partition, offset)
        # Not a seek: without a committed offset librdkafka has stopped it.
        self._restart([*found])

    def seek(self, partitions: Iterable[Partition]) -> None:
        """Seeks each to its first unhandled offset; not those without a delivery yet.

        Where messages stay in memory, behind the last of them: it would deliver them twice. A
        failed seek must not be ignored, or the next resume would skip the failed message: the
        partition is restarted there, or given up.
        """
        for partition in partitions:
            if partition in self._assignment.stopped:
                continue  # librdkafka may refuse; it is assigned again when it is read again
            if partition not in self._assignment.epochs:
                continue  # just given up, as librdkafka refused to pause or resume it
            self._assignment.expect(partition)
            kept = self._read_ahead.last_kept(partition)
            offset = self.offsets.next_offset(partition) if kept is None else kept + 1
            if offset is not None:
                self._seek(partition, offset)

    def compare(self, partition: Partition, offset: int, leader_epoch: int) -> None:
        """Has librdkafka look whether the log has what this leader wrote below `offset`."""
        self._assignment.expect(partition)
        self._seek(partition, offset, leader_epoch)

    def reassign(self, partition: Partition, *, keep_ahead: bool = False) -> None:
        """Assigns it again at the first offset that is not here, or per `auto.offset.reset`.

        An eager assignment is replaced as a whole, so all partitions restart then.
        """
        begin = self._read_ahead.restart_at
        starts = {key: begin(key, offset) for key, offset in self.offsets.starts().items()}
        assigned = self._client.assignment()
        if self._client.restarts_all:
            # Include what we gave up and librdkafka still has: it must stay in its assignment.
            # Sorted, so that a fault schedule is reproducible.
            starts = dict.fromkeys(sorted(assigned)) | starts
        elif partition not in assigned:  # the member is fenced: the next poll raises that
            self.mark_lost([partition], "no longer assigned when it was to be assigned again")
            return
        again = tuple(starts) if self._client.restarts_all else (partition,)
        self._client.reassign(partition, starts)
        self._read_ahead.drop(lambda key: key in again and not (key == partition and keep_ahead))
        owned = [key for key in again if key in self._assignment]
        for key in owned:
            self._assignment.expect(key)
        self.apply_pause_state(owned)

    def read_again(self, partition: Partition, offset: int) -> None:
        """Goes back to an earlier offset: what was taken to be done from there on is not."""
        self._start_over(partition, offset)
        self.seek([partition])

    def read_another_log(self, partition: Partition, offset: int) -> None:
        """Starts at `offset` of the log that is there now: it was cut, or is another one."""
        self._start_over(partition, offset)
        self.reassign(partition)

    def revive(self, partition: Partition, reason: str) -> None:
        """Assigns a stalled partition again, and emits `PartitionRevived`."""
        offset = self.offsets.next_offset(partition)
        self.reassign(partition)
        if partition in self._assignment:
            self._emit(PartitionRevived(*partition, offset=offset, reason=reason))

    def assign(self, partitions: Iterable[Partition]) -> None:
        """Takes newly assigned partitions, each in a new epoch, and applies their pause state."""
        try:
            # First, as a partition found to be gone already emits its loss after this.
            self._take(partitions)
        finally:
            self.apply_pause_state(partitions)

    def drop(self, partitions: Iterable[Partition]) -> None:
        """Drops revoked partitions, and circuits with nothing left to probe."""
        self.forget(partitions)
        for scope, circuit in self.circuits:
            # A half-open circuit without a message has nothing left to probe.
            waits_on = circuit.state == "open" or circuit.held is not None
            if not waits_on and not self._owned(scope.covers):
                self._drop_circuit(scope)

    def mark_lost(self, partitions: Iterable[Partition], reason: str) -> None:
        """Marks partitions as lost: none of their messages is handled or committed."""
        gone = [partition for partition in partitions if partition in self._assignment]
        if not gone:
            return
        self.forget(gone)
        self._assignment.mark_lost(gone)
        self._client.member.note_lost()
        self._emit(Lost(tuple(gone), reason))

    def mark_all_lost(self, reason: str) -> None:
        self.mark_lost(self._assignment.partitions, reason)

    def reclaim(self, partitions: Iterable[Partition]) -> None:
        """Takes back lost partitions that are still assigned, at the committed offset."""
        assigned = self._client.assignment()
        for partition in partitions:
            self._assignment.drop([partition])
            if partition in assigned:
                # Listeners were told that it was lost, and must learn that it is ours again.
                self._take([partition])
                self.revive(partition, "marked lost, and still assigned")

    def forget(self, partitions: Iterable[Partition]) -> None:
        """Drops the state of these partitions; their circuits stay until `retry_at`."""
        gone = frozenset(partitions)
        self._assignment.drop(gone)
        self.offsets.forget(gone)
        self._drop_keys(gone)  # the note tells their next owner how often they have failed
        self.circuits.drop_held(gone)
        self._held_back -= gone
        self._unplaced -= gone
        self._read_ahead.forget(gone.__contains__)

    def _take(self, partitions: Iterable[Partition]) -> None:
        self._assignment.take(partitions)
        self.offsets.begin(partitions)
        self._read_ahead.start_small()
        if self._start_positions is not None:
            # What librdkafka reads until then is from the committed offset.
            self._unplaced.update(partitions)
            self.due_at_s = -math.inf
        self._emit(Assigned(tuple(partitions)))

    def _restart(self, partitions: Sequence[Partition]) -> None:
        for partition in partitions[:1] if self._client.restarts_all else partitions:
            self.reassign(partition)

    def _start_over(self, partition: Partition, offset: int) -> None:
        """Forgets what is known of a partition. What runs, or leaves, counts no more."""
        self._assignment.take([partition])  # another reading is another ownership
        self._drop_keys([partition])
        self.circuits.drop_held([partition])
        self._read_ahead.forget(partition.__eq__)
        self.offsets.begin([partition])
        self.offsets.start_at(partition, offset, is_another_log=True)

    def _drop_keys(self, partitions: Iterable[Partition]) -> None:
        for scope in [each for key in partitions for each in self.circuits.keys_of(key)]:
            self._drop_circuit(scope)

    def _drop_circuit(self, scope: Scope) -> None:
        open_s = self.circuits.close(scope, self._assignment.now_s())
        self._emit(CircuitClosed(scope, "dropped", open_s))

    def _owned(self, covers: Callable[[Partition], bool]) -> list[Partition]:
        return [partition for partition in self._assignment.epochs if covers(partition)]

    def _each(
        self, command: Callable[[Iterable[Partition]], None], partitions: list[Partition]
    ) -> None:
        if not partitions:
            return
        try:
            command(partitions)
        except KafkaException as error:
            # If one is not assigned any more, librdkafka refuses the call for all of them.
            assigned = self._client.assignment()
            self.mark_lost([p for p in partitions if p not in assigned], f"not assigned: {error}")
            for partition in partitions:
                if partition in assigned:
                    command([partition])

    def _seek(self, partition: Partition, *where: int) -> None:
        try:
            self._client.seek(partition, *where)
        except KafkaException as error:
            self._mend(partition, error)

    def _mend(self, partition: Partition, error: KafkaException) -> None:
        is_unknown = error.args[0].code() == KafkaError._UNKNOWN_PARTITION
        if not is_unknown and partition in self._client.assignment():
            self.revive(partition, f"a seek failed: {error}")
        else:
            self.mark_lost([partition], f"not assigned: {error}")
