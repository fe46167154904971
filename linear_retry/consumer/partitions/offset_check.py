"""Checks that a message is the next of its partition before it joins the read-ahead."""

from __future__ import annotations

from linear_retry.consumer.partitions.assignment import Assignment
from linear_retry.consumer.partitions.client_errors import ClientErrors
from linear_retry.consumer.partitions.commits import OffsetCommits
from linear_retry.consumer.partitions.flow_control import FlowControl
from linear_retry.consumer.partitions.offsets import Offsets
from linear_retry.consumer.partitions.read_ahead import ReadAhead, partition_of
from linear_retry.kafka import KafkaException, Message
from linear_retry.scope import Partition


class OffsetCheck:
    """For the first message, or the end, of a partition after an assign, resume or seek."""

    def __init__(
        self,
        assignment: Assignment,
        offsets: Offsets,
        read_ahead: ReadAhead,
        flow_control: FlowControl,
        commits: OffsetCommits,
        errors: ClientErrors,
    ) -> None:
        self._assignment = assignment
        self._offsets = offsets
        self._read_ahead = read_ahead
        self._flow_control = flow_control
        self._commits = commits
        self._errors = errors
        self._ends: dict[Partition, int] = {}

    def trusts(self, arrivals: list[Message]) -> bool:
        """Whether nothing is paused, and none of these is a first message."""
        if self._flow_control.pauses_any:
            return False
        assignment = self._assignment
        return assignment.undisturbed or assignment.have_delivered(set(map(partition_of, arrivals)))

    def accept(self, message: Message, partition: Partition, serial: int) -> bool:
        """Whether this message, or end of a partition, is what comes next. A message then joins
        the read-ahead, or is held as a probe. `serial` is the assignment's as it arrived.
        """
        offset, is_message = offset_of(message), message.error() is None
        if self._offsets.next_offset(partition) is None:
            # Whatever becomes of it: the first that comes is where this assignment begins, and
            # without it there would be no way back once the message is dropped.
            self._offsets.start_at(partition, offset)
        if self._assignment.is_stale(partition, serial):
            return False  # sought or begun anew a moment ago: it comes again, in its order
        if self._flow_control.is_paused(partition):
            if is_message:
                self._flow_control.drop_leak(partition, offset)
            return False  # its end is no news either: what leaked before it is still to come
        accepted = self._is_next(partition, offset) and self._is_committed_first(partition)
        if accepted and not is_message:
            self._ends[partition] = offset
        elif accepted and not self._flow_control.hold_probe(message, partition, offset):
            self._read_ahead.keep([message])
        return accepted

    def tick(self) -> None:
        """Of each partition that has told its end: what is behind its last message is no message.

        Transaction markers, or what was aborted: the lag counts them otherwise. Not while a letter
        is awaited: the message it is for is neither done nor in memory then.
        """
        if not self._ends:
            return
        ends, self._ends = self._ends, {}
        ahead = self._read_ahead.messages
        following = {partition_of(message): offset_of(message) + 1 for message in ahead}
        for partition, end in ends.items():
            is_silent = not self._assignment.have_delivered([partition])
            if not is_silent and not self._flow_control.is_paused(partition):
                start = following.get(partition) or self._offsets.next_offset(partition)
                if start is not None and start <= end:
                    self._offsets.note_tail(partition, start, end)

    # -- inside ----------------------------------------------------------------------------

    def _is_next(self, partition: Partition, offset: int) -> bool:
        if not self._assignment.is_silent(partition):
            return True
        match self._offsets.classify_offset(partition, offset):
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
        """What was lost counts as done: a later seek to it would only lose it once more.

        Unless something before it is in memory still: that comes first.
        """
        last = self._read_ahead.last_of(partition)
        if last is not None:
            self._offsets.note_first_commit(partition)
            self._offsets.note_gone(partition, last + 1, offset)
        else:
            self._offsets.start_at(partition, offset)

    def _is_committed_first(self, partition: Partition) -> bool:
        """The group's first offset here is committed before the handler sees it.

        With nothing committed and `latest`, the next owner would begin at the end: a revoke now
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


def offset_of(message: Message) -> int:
    offset = message.offset()
    if offset is None:
        raise AssertionError("a consumed message has an offset")
    return offset
