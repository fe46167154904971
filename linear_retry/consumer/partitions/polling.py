"""Polls the client, checks what arrives, and adds it to the read-ahead."""

from collections.abc import Callable

from linear_retry.consumer.partitions.assignment import Assignment
from linear_retry.consumer.partitions.client_events import ClientErrors
from linear_retry.consumer.partitions.commit_notes import CommitNotes
from linear_retry.consumer.partitions.flow_control import FlowControl
from linear_retry.consumer.partitions.offset_reset import OffsetReset
from linear_retry.consumer.partitions.offsets import OffsetCommits
from linear_retry.consumer.partitions.read_ahead import ReadAhead, is_about_client
from linear_retry.consumer.partitions.unreadable_batches import UnreadableBatches
from linear_retry.kafka import KafkaError, KafkaException, Message
from linear_retry.kafka.consumer.leader_epochs import LeaderEpochs
from linear_retry.kafka.consumer.messages import offset_of, partition_of
from linear_retry.kafka.topics.batch_end import is_unreadable
from linear_retry.scope import Partition


class OffsetCheck:
    """Checks the first message, or the end, of a partition after an assign, resume or seek.

    Of later ones it drops those that have arrived before. While brokers and leaders come and go,
    librdkafka may read on from where it once began (librdkafka #4637, #4686; with 2.16, 36 messages
    again 1.3 s later, in 1 of some 1,000 plays of `embedded`): handled again, they would put an
    older state after a newer one.
    """

    def __init__(
        self,
        assignment: Assignment,
        read_ahead: ReadAhead,
        flow_control: FlowControl,
        commits: OffsetCommits,
        notes: CommitNotes,
        errors: ClientErrors,
        leader_epochs: LeaderEpochs,
    ) -> None:
        self._assignment = assignment
        self._notes = notes
        self._leader_epochs = leader_epochs
        self._offsets = flow_control.offsets
        self._read_ahead = read_ahead
        self._flow_control = flow_control
        self._commits = commits
        self._errors = errors

    def trusts(self, arrivals: list[Message]) -> bool:
        """Whether these need no check: nothing is paused, and each follows one that has arrived."""
        assignment = self._assignment
        if self._flow_control.pauses_any:
            return False
        if not assignment.undisturbed and not assignment.have_delivered(
            set(map(partition_of, arrivals))
        ):
            return False
        return not arrivals or self._follow(arrivals)

    def accept(self, message: Message, partition: Partition, serial: int) -> bool:
        """Whether this message, or end of a partition, is the expected next one. A message is then
        added to the read-ahead, or held as a probe. `serial` is the assignment's on arrival.
        """
        offset, is_message = offset_of(message), message.error() is None
        if self._offsets.next_offset(partition) is None:
            # Even if it is dropped below: this assignment starts here, and without this offset we
            # could not seek back to a dropped message.
            self._offsets.start_at(partition, offset, by_commit=True)
        if self._assignment.is_stale(partition, serial):
            return False  # just sought or restarted: it is delivered again, in order
        if self._flow_control.pauses_any and self._flow_control.is_paused(partition):
            if is_message:
                self._flow_control.drop_leak(partition, offset)
            return False  # nor does its end count: what leaked before it is delivered again
        accepted = (
            self._is_next(partition, offset)
            and self._is_noted_first(partition)
            and self._is_of_same_log(message, partition)
            and self._is_committed_first(partition)
        )
        if accepted and not is_message:
            self._note_end(partition, offset)
        elif accepted and not (
            self._flow_control.pauses_any
            and self._flow_control.hold_probe(message, partition, offset)
        ):
            self._read_ahead.keep([message])
        if accepted:
            if is_message:
                self._leader_epochs.note(message, partition, offset)
            # Of an end too: what begins there is not to be compared with an earlier assignment's.
            self._assignment.arrived[partition] = offset if is_message else offset - 1
        return accepted

    def _follow(self, arrivals: list[Message]) -> bool:
        """Whether the offsets of each partition go up, under one leader; if so, they arrived."""
        arrived, first = self._assignment.arrived, arrivals[0]
        partition, start, end = partition_of(first), offset_of(first), offset_of(arrivals[-1])
        is_same_leader = self._leader_epochs.is_same
        if end - start == len(arrivals) - 1 and partition_of(arrivals[-1]) == partition:
            # Nearly always, and the rest need not be looked at: this must cost next to nothing.
            if start <= arrived.get(partition, -1) or not is_same_leader(arrivals[-1], partition):
                return False
            arrived[partition] = end
            return True
        now_arrived = dict(arrived)
        for message in arrivals:
            partition, offset = partition_of(message), offset_of(message)
            if offset <= now_arrived.get(partition, -1) or not is_same_leader(message, partition):
                return False
            now_arrived[partition] = offset
        arrived |= now_arrived
        return True

    def _note_end(self, partition: Partition, end: int) -> None:
        """Notes that no messages follow the last one in memory, or else what is done.

        Only if all that has arrived is in memory or done: the end is going to be committed, and a
        message that was dropped to be fetched again must not be passed. One whose letter is awaited
        counts as in memory (`ReadAhead.in_hand`).
        """
        last = self._read_ahead.last_of(partition)
        start = self._offsets.next_offset(partition) if last is None else last + 1
        arrived_end = self._assignment.arrived.get(partition, -1) + 1
        if start is not None and not self._offsets.to_read(partition, start, arrived_end):
            self._offsets.note_tail(partition, start, end)
        self._leader_epochs.note_end(partition, arrived_end, end)

    def _is_next(self, partition: Partition, offset: int) -> bool:
        if not self._assignment.is_silent(partition):
            return offset > self._assignment.arrived.get(partition, -1)
        match self._offsets.classify_offset(
            partition, offset, self._read_ahead.last_kept(partition)
        ):
            case "duplicate":
                return False
            case "suspect":
                self._flow_control.seek([partition])
                return False
            case "reset":
                self._begin_after_reset(partition, offset)
            case "next" | "gap":
                pass
        self._assignment.note_delivered(partition)
        return True

    def _begin_after_reset(self, partition: Partition, offset: int) -> None:
        """Counts what was lost as done: a later seek there would only lose it again.

        Messages from before it that are still in memory come first.
        """
        last = self._read_ahead.last_of(partition)
        if last is not None:
            self._offsets.note_first_commit(partition)
            self._offsets.note_gone(partition, last + 1, offset)
        else:
            self._offsets.start_at(partition, offset)

    def _is_of_same_log(self, message: Message, partition: Partition) -> bool:
        """Has librdkafka look whether the log was cut below the commit where this begins.

        Only a seek does (librdkafka 2.16), not the start: what was written again below the commit
        would be passed over. Where the leader is still the same, nothing was cut.
        """
        if message.error() is not None or not self._offsets.take_unchecked(partition):
            return True
        before, leader_epoch = self._leader_epochs.last(partition)
        is_first = self._assignment.arrived.get(partition, -1) < (
            self._offsets.began(partition) or 0
        )
        if leader_epoch is None or message.leader_epoch() == leader_epoch or not is_first:
            return True
        # At the commit: what compaction has left may begin after the end of that leader's part.
        self._flow_control.compare(partition, before + 1, leader_epoch)
        return False

    def _is_committed_first(self, partition: Partition) -> bool:
        """Commits the group's first offset here before the handler gets the message.

        With nothing committed and `latest`, the next owner would start at the end: a revoke now
        would lose this message.
        """
        offset = self._offsets.next_offset(partition)
        if offset is None or self._offsets.has_commit(partition):
            return True
        try:
            self._commits.commit_first(partition, offset)
        except KafkaException as error:
            self._errors.commit_refused(error.args[0], (partition,))
            self._flow_control.seek([partition])
            return False
        return True

    def _is_noted_first(self, partition: Partition) -> bool:
        """Reads the partition's note before the handler gets a message, which may be done.

        And before anything is committed, which would clear it.
        """
        try:
            self._notes.read(partition)
        except KafkaException as error:
            self._errors.report(error.args[0], partition[0])
            self._flow_control.seek([partition])  # delivered again, it asks again
            return False
        return True


class DeliveryFilter:
    """Checks every arrival: neither a pause nor a position can be relied on.

    `assign(); pause()` inside `on_assign` let a whole partition through 6 times in 346,400
    (librdkafka #5591): messages of an open circuit are dropped before the handler.
    """

    def __init__(
        self,
        assignment: Assignment,
        read_ahead: ReadAhead,
        offset_check: OffsetCheck,
        offset_reset: OffsetReset,
        unreadable: UnreadableBatches,
        errors: ClientErrors,
    ) -> None:
        self._assignment = assignment
        self._read_ahead = read_ahead
        self._offset_check = offset_check
        self._offset_reset = offset_reset
        self._unreadable = unreadable
        self._errors = errors

    def accept(self, arrivals: list[Message]) -> None:
        """Adds the valid messages among these to the read-ahead; handles errors.

        Raises what is fatal (`raise_if_fatal`), and `DataLossError`.
        """
        if self._errors.unexplained and not any(map(is_about_client, arrivals)):
            self._errors.raise_if_unexplained()
        if self._offset_reset.missing:
            self._offset_reset.ask_again()
        # The fast path must cost next to nothing.
        if (
            not any(map(Message.error, arrivals))
            and not self._offset_reset.cut
            and self._offset_check.trusts(arrivals)
        ):
            self._read_ahead.keep(arrivals)
            return
        serial = self._assignment.serial
        for message in arrivals:
            error, partition = message.error(), partition_of(message)
            if error is not None and is_about_client(message):
                self._errors.report(error, message.topic())
            elif partition not in self._assignment:
                continue  # we gave it up: its new owner reads it
            elif partition in self._offset_reset.cut:
                continue  # it is read again from where its log was cut
            elif error is not None and is_unreadable(error):
                if not self._assignment.is_stale(partition, serial):
                    self._unreadable.stop(partition, offset_of(message), error)
            elif error is not None and error.code() == KafkaError._AUTO_OFFSET_RESET:
                if partition not in self._assignment.stopped:
                    self._offset_reset.lost(partition, message.offset(), error.str())
            elif self._offset_check.accept(message, partition, serial) and (
                partition in self._assignment.unreadable
            ):
                self._unreadable.note_delivered(partition, offset_of(message))


_SEARCHING_S = 0.01
_GROUP_LOOK_S = 0.05


class Poller:
    """The loop's only way to poll; rebalance callbacks run inside."""

    def __init__(
        self,
        assignment: Assignment,
        read_ahead: ReadAhead,
        flow_control: FlowControl,
        delivery_filter: DeliveryFilter,
        batches: UnreadableBatches,
    ) -> None:
        self._assignment = assignment
        self._read_ahead = read_ahead
        self._flow_control = flow_control
        self._delivery_filter = delivery_filter
        self._batches = batches

    def poll(self) -> None:
        """Waits for the first message, and takes those already queued after it.

        Waits for the next probe at most: no busy loop, no timer thread. The client caps it at 1 s.
        Does not wait where there is something to do (`ReadAhead.read`).
        """
        self._accept(lambda: self._read_ahead.read(self._timeout_s()))

    def touch(self) -> None:
        """Polls without waiting, to stay in the group."""
        self._accept(self._read_ahead.touch)

    def give_up_if_overran(self) -> None:
        """Marks partitions as lost if the last poll was too long ago.

        librdkafka reports that only some polls later, so held messages must not be attempted yet.
        """
        if self._read_ahead.overran(self._assignment.now_s()):
            self._flow_control.mark_all_lost("no poll for too long")

    def _accept(self, read: Callable[[], list[Message]]) -> None:
        owned = self._assignment
        self.give_up_if_overran()
        if self._read_ahead.is_invalid:
            self._flow_control.reposition()
        epoch = owned.epoch
        arrivals = read()
        if self._read_ahead.overslept:
            before = [key for key in owned.partitions if (owned.epochs.get(key) or 0) <= epoch]
            self._flow_control.mark_lost(before, "the machine slept for too long")
        self._delivery_filter.accept(arrivals)

    def _timeout_s(self) -> float:
        next_at_s = min(self._flow_control.circuits.next_retry_at_s, self._read_ahead.next_due_at_s)
        timeout_s = next_at_s - self._assignment.now_s()
        circuits = self._flow_control.circuits
        if circuits.hears_group and not circuits.all_closed:
            timeout_s = min(timeout_s, _GROUP_LOOK_S)  # who else fails is heard by another thread
        return timeout_s if self._batches.search is None else min(timeout_s, _SEARCHING_S)
