"""May this message join the read-ahead?"""

from __future__ import annotations

from linear_retry.consumer.partitions.error_throttle import ErrorThrottle
from linear_retry.consumer.partitions.flow_control import FlowControl
from linear_retry.consumer.partitions.offset_reset import OffsetReset
from linear_retry.consumer.partitions.read_ahead import is_about_client, partition_of
from linear_retry.consumer.state import Parts
from linear_retry.consumer.watchdogs.unreadable_batches import UnreadableBatches
from linear_retry.errors import BrokerError
from linear_retry.events import ClientError, CommitFailed, LeakDropped
from linear_retry.kafka import KafkaError, KafkaException, Message
from linear_retry.kafka.consumer.fatal_errors import (
    is_name_taken,
    is_retriable_commit,
    is_unexplained,
    needs_new_client,
    raise_if_fatal,
)
from linear_retry.kafka.topics.batch_end import is_unreadable
from linear_retry.retry.held import Held
from linear_retry.scope import Partition

_REASON_WITHIN_S = 2.0


class DeliveryFilter:
    """Every arrival passes here: pause() is no guarantee, and neither is a position.

    `assign(); pause()` inside `on_assign` let a whole partition through 6 times in 346,400
    (librdkafka #5591): what belongs to an open circuit is dropped before the handler.
    """

    def __init__(
        self, parts: Parts, flow_control: FlowControl, unreadable: UnreadableBatches
    ) -> None:
        self._parts = parts
        self._flow_control = flow_control
        self._unreadable = unreadable
        self._offset_reset = OffsetReset(parts, flow_control)
        self._complaints = ErrorThrottle()
        self._refusals = ErrorThrottle()
        self._unexplained: tuple[KafkaError, float] | None = None
        self.useless: KafkaError | None = None
        """Why only another client can go on, where that is so: `ClientReplacement` looks here."""
        self._ends: dict[Partition, int] = {}

    def accept(self, arrivals: list[Message]) -> None:
        """Let the messages among these join the read-ahead; errors are dealt with.

        Raises what cannot be mended (`raise_if_fatal`), and `DataLossError`.
        """
        parts = self._parts
        if self._unexplained is not None and not any(map(is_about_client, arrivals)):
            self._raise_if_unexplained(*self._unexplained)
        self._offset_reset.tick()
        # The usual case must cost next to nothing: nothing is open, and nobody here awaits a
        # first message.
        if not (parts.circuits or parts.unreadable or any(map(Message.error, arrivals))):
            assignment = parts.assignment
            if assignment.undisturbed or assignment.have_delivered(
                set(map(partition_of, arrivals))
            ):
                parts.read_ahead.keep(arrivals)
                return
        serial = parts.assignment.serial
        for message in arrivals:
            error, partition = message.error(), partition_of(message)
            if error is not None and is_about_client(message):
                self.report(error, message.topic())
            elif partition not in parts.assignment:
                continue  # given up by us: whoever has it reads it
            elif error is not None and is_unreadable(error):
                if not parts.assignment.is_stale(partition, serial):
                    self._unreadable.meet(partition, _offset(message), error)
            elif error is not None and error.code() == KafkaError._AUTO_OFFSET_RESET:
                if not parts.unreadable.stops(partition):
                    self._offset_reset.lost(partition, message.offset())
            else:
                self._place(message, partition, _offset(message), serial)

    def note_ends(self) -> None:
        """Of each partition that has told its end: what is behind its last message is no message.

        Transaction markers, or what was aborted: the lag counts them otherwise. Not while a letter
        is awaited: the message it is for is neither done nor in memory then.
        """
        if not self._ends:
            return
        parts, ends, self._ends = self._parts, self._ends, {}
        following = {
            partition_of(message): _offset(message) + 1 for message in parts.read_ahead.ahead
        }
        for partition, end in ends.items():
            if parts.assignment.have_delivered([partition]) and not parts.circuits.stops(partition):
                start = following.get(partition) or parts.offsets.next_offset(partition)
                if start is not None and start <= end:
                    parts.offsets.note_tail(partition, start, end)

    # -- one message, or the end of a partition ----------------------------------------------

    def _place(self, message: Message, partition: Partition, offset: int, serial: int) -> None:
        parts = self._parts
        if parts.offsets.next_offset(partition) is None:
            # Whatever becomes of it: the first that comes is where this ownership begins, and
            # without it there would be no way back once the message is dropped.
            parts.offsets.start_at(partition, offset)
        if parts.assignment.is_stale(partition, serial):
            return  # sought or begun anew a moment ago: it comes again, in its order
        is_message = message.error() is None
        if self._flow_control.is_paused(partition):
            if is_message:
                parts.client.pause([partition])
                parts.emit(LeakDropped(*partition, offset=offset))
            return  # its end is no news either: what leaked before it is still to come
        believed = self._is_next(partition, offset) and self._is_anchored(partition)
        if believed and parts.unreadable:
            self._unreadable.heard(partition, offset)
        if believed and is_message:
            self._let_in(message, partition, offset)
        elif believed:
            self._ends[partition] = offset

    def _is_next(self, partition: Partition, offset: int) -> bool:
        parts = self._parts
        if not parts.assignment.is_silent(partition):
            return True
        match parts.offsets.classify_offset(partition, offset):
            case "early":
                return False
            case "doubtful":
                self._flow_control.seek([partition])
                return False
            case "anew":
                self._begin_anew(partition, offset)
                parts.assignment.note_delivered(partition)
                return True
            case "next" | "gap":
                parts.assignment.note_delivered(partition)
                return True

    def _begin_anew(self, partition: Partition, offset: int) -> None:
        """What was lost counts as done: a later seek to it would only lose it once more.

        Unless something before it is in memory still: that comes first.
        """
        parts = self._parts
        last = parts.read_ahead.last_of(partition)
        if last is not None:
            parts.offsets.anchored(partition)
            parts.offsets.note_gone(partition, last + 1, offset)
        else:
            parts.offsets.start_at(partition, offset)

    def _is_anchored(self, partition: Partition) -> bool:
        """The group's first offset here is committed before the handler sees it.

        With nothing committed and `latest`, the next owner would begin at the end: a revoke now
        would lose this message.
        """
        parts = self._parts
        offset = parts.offsets.next_offset(partition)
        if offset is None or not parts.offsets.needs_first_commit(partition):
            return True
        try:
            parts.client.commit_now({partition: offset})
        except KafkaException as error:
            self.commit_refused(error.args[0], (partition,))
            self._flow_control.seek([partition])
            return False
        parts.offsets.anchored(partition)
        parts.offsets.committed({partition: offset})
        return True

    def _let_in(self, message: Message, partition: Partition, offset: int) -> None:
        parts = self._parts
        scope = parts.circuits.wanting_probe(partition)
        if scope is None:
            parts.read_ahead.keep([message])
            return
        epoch = parts.assignment.epoch_of(partition)
        parts.circuits.hold(scope, Held(message, partition, offset, epoch or 0))
        self._flow_control.pause(scope)

    # -- errors ----------------------------------------------------------------------------

    def report(self, error: KafkaError, topic: str | None = None) -> None:
        """Raise it where no waiting can mend it; else say so once, and once for every tenfold.

        With a broker down the same one comes hundreds of times. Or only this client cannot go on:
        then nothing that it has is handled any more. Where it never was a member, another would
        not become one either, unless it is the name that is taken (`InstanceIdWait`).
        """
        if needs_new_client(error) and self._parts.client.member.was_member:
            self.useless = error
            self._flow_control.mark_lost(
                self._parts.assignment.partitions, "the client cannot go on"
            )
            return
        if is_name_taken(error) and not self._parts.client.member.was_member:
            self.useless = error
            return
        raise_if_fatal(error, group=self._parts.settings.group_id, topic=topic)
        count = self._complaints.hear(error.code(), self._parts.clock.now_s())
        if count is not None:
            self._parts.emit(ClientError(error.name(), error.str(), count))

    def commit_refused(
        self,
        error: KafkaError,
        partitions: tuple[Partition, ...],
        *,
        of_present_member: bool = True,
    ) -> None:
        """Retriable: the next commit says the same and more. Not a member any more: all is lost.

        Unless it was sent before we were given what we have: whoever sent it was another member.
        """
        unexplained = is_unexplained(error)
        if not unexplained:
            raise_if_fatal(error, group=self._parts.settings.group_id)
        elif self._unexplained is None:
            self._unexplained = error, self._parts.clock.now_s()
        if self._refusals.hear(error.code(), self._parts.clock.now_s()) is not None:
            self._parts.emit(CommitFailed(f"{error.name()}: {error.str()}", partitions))
        not_a_member = error.code() == KafkaError.UNKNOWN_MEMBER_ID
        if unexplained or (not_a_member and of_present_member):
            self._flow_control.mark_lost(self._parts.assignment.partitions, "not a member any more")
        elif not (not_a_member or is_retriable_commit(error)):
            raise BrokerError(f"a commit was refused: {error.name()}: {error.str()}")

    def forget_errors(self) -> None:
        """They were the old client's."""
        self._unexplained = self.useless = None

    def _raise_if_unexplained(self, error: KafkaError, since_s: float) -> None:
        """A commit's answer says of a fatal error only that it is one; a poll then says which.

        That is waited for, with nothing handled meanwhile, or a member that was fenced would be
        told to be started anew.
        """
        if self.useless is None and self._parts.clock.now_s() >= since_s + _REASON_WITHIN_S:
            raise_if_fatal(error)


def _offset(message: Message) -> int:
    offset = message.offset()
    if offset is None:
        raise AssertionError("a consumed message has an offset")
    return offset
