"""The offsets of the assigned partitions: what is done, what is committed, what comes next."""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Literal, TypeAlias

from linear_retry.events import CommitFailed, Event
from linear_retry.kafka import KafkaException
from linear_retry.kafka.consumer.client import Client
from linear_retry.retry.clock import NowS
from linear_retry.scope import Partition

COMMIT_EVERY_S = 1.0
UNANSWERED_FOR_S = 60.0
"""librdkafka answers earlier than that, as a rule: an answer is taken for lost then."""

OffsetClass: TypeAlias = Literal["next", "duplicate", "suspect", "gap", "reset"]


@dataclass(slots=True)
class _Position:
    """One owned partition. Offsets are those of the next message, as Kafka commits them."""

    next_offset: int | None = None
    committed: int | None = None
    suspected: int | None = None
    reset_to: int | None = None
    has_commit: bool = True
    in_transaction: bool = False
    tail: tuple[int, int] = (0, 0)
    gone: tuple[int, int] | None = None


class Offsets:
    """The positions of the assigned partitions, of the present epoch only.

    `next_offset` is the first offset that is not handled: what is committed, and where every seek
    goes. None: nothing has been delivered yet, and the committed offset decides.
    """

    def __init__(self) -> None:
        self._positions: dict[Partition, _Position] = {}

    def __contains__(self, partition: Partition) -> bool:
        return partition in self._positions

    def next_offset(self, partition: Partition) -> int | None:
        """For any thread: None also where the partition is not ours any more."""
        position = self._positions.get(partition)
        return None if position is None else position.next_offset

    def starts(self) -> dict[Partition, int | None]:
        """The offset at which each partition would restart; None: the committed one."""
        return {
            key: position.next_offset if position.reset_to is None else position.reset_to
            for key, position in self._positions.items()
        }

    def uncommitted(self, partitions: Iterable[Partition] | None = None) -> dict[Partition, int]:
        """What is done and not known to be committed, of all partitions or of these.

        Without those in a transaction, which may have committed more.
        """
        keys = self._positions if partitions is None else partitions
        return {
            key: position.next_offset
            for key in keys
            if (position := self._positions.get(key)) is not None
            and position.next_offset is not None
            and position.next_offset != position.committed
            and not position.in_transaction
        }

    def classify_offset(self, partition: Partition, offset: int) -> OffsetClass:
        """Classifies the first offset after an assign, a resume, a seek or an exception.

        An earlier one was handled before. A later one may have skipped what was dropped on the
        way (librdkafka's positions are not ours), so it is suspect once: seek, and look again.
        The same once more is a real gap: transaction markers, compaction. After a reset any is
        believed, and the partition restarts there.
        """
        position = self._positions[partition]
        if position.reset_to is not None:
            position.reset_to = None
            return "reset"
        if position.next_offset is None or offset == position.next_offset:
            return "next"
        if offset < position.next_offset:
            return "duplicate"
        if position.suspected == offset:
            return "gap"
        position.suspected = offset
        return "suspect"

    def has_commit(self, partition: Partition) -> bool:
        """Whether the group has a committed offset here; else its first is committed before use."""
        return self._positions[partition].has_commit

    def is_in_transaction(self, partition: Partition) -> bool:
        """Whether a transaction may have committed its next offset, and nobody knows yet."""
        return self._positions[partition].in_transaction

    def is_old_news(self, partition: Partition, missing_offset: int | None) -> bool:
        """Whether this offset that the broker has not, or None: none committed, is behind us.

        librdkafka may say so twice, the second time when the partition reads on already: begun
        once more, all that was handled since would be handled again.
        """
        position = self._positions[partition]
        if missing_offset is None:
            return position.next_offset is not None or position.reset_to is not None
        return position.next_offset is not None and missing_offset < position.next_offset

    def to_read(self, partition: Partition, committed: int, end: int) -> int:
        """How many offsets there are from `committed` to `end`, but for what is known to be none.

        For any thread.
        """
        position = self._positions.get(partition)
        first, last = (0, 0) if position is None else position.tail
        hidden = max(min(last, end) - max(first, committed), 0)
        return max(end - committed - hidden, 0)

    def begin(self, partitions: Iterable[Partition]) -> None:
        self._positions |= {partition: _Position() for partition in partitions}

    def forget(self, partitions: Iterable[Partition]) -> None:
        """Forgets revoked or lost partitions: they are not ours to commit any more."""
        for partition in partitions:
            self._positions.pop(partition, None)

    def start_at(self, partition: Partition, offset: int) -> None:
        """The first message delivered, or the end of an empty partition.

        After a reset what is committed does not count: in a topic that was deleted and made again
        the offsets are lower.
        """
        position = self._positions[partition]
        position.next_offset = offset
        position.committed = None
        position.reset_to = None
        position.tail = (0, 0)
        position.gone = None

    def reset(self, partition: Partition, to: int, *, has_commit: bool) -> None:
        """`auto.offset.reset` says where it goes on, and the next offset to come is believed.

        What is done stays: messages in memory may still be before the place that was lost.
        """
        position = self._positions[partition]
        position.reset_to = to
        position.has_commit = has_commit

    def note_first_commit(self, partition: Partition) -> None:
        self._positions[partition].has_commit = True

    def note_gone(self, partition: Partition, start: int, end: int) -> None:
        """Notes that `start` to `end` is lost: done once everything before it is done."""
        self._positions[partition].gone = start, end

    def done(self, next_offsets: Mapping[Partition, int]) -> None:
        """Notes that everything before these offsets is handled, dead-lettered or skipped."""
        for partition, next_offset in next_offsets.items():
            position = self._positions.get(partition)
            if position is None:
                continue
            position.next_offset = next_offset
            position.suspected = None
            if position.gone is not None and next_offset >= position.gone[0]:
                position.next_offset = max(next_offset, position.gone[1])
                position.gone = None

    def note_tail(self, partition: Partition, start: int, end: int) -> None:
        """Notes that `start` to `end` has no messages: transaction markers, or aborted records."""
        self._positions[partition].tail = start, end

    def committed(self, offsets: Mapping[Partition, int]) -> None:
        """The broker has acknowledged these, and what it had before is gone, though it be more."""
        for partition, offset in offsets.items():
            position = self._positions.get(partition)
            if position is not None:
                position.committed = offset

    def begin_transaction(self, partition: Partition) -> None:
        """Commit nothing of it: what it lacks may arrive after a transaction's, and undo that."""
        self._positions[partition].in_transaction = True

    def end_transaction(self, partition: Partition) -> None:
        """It is known what the transaction has committed, or that it never will."""
        if partition in self._positions:
            self._positions[partition].in_transaction = False


class OffsetCommits:
    """Commits what is done, one commit at a time for each partition.

    librdkafka retries a commit that met a coordinator in trouble, and a later one may overtake it:
    the broker then ends with the older offset (of six errors, five did that each time, with
    librdkafka 2.16 on its mock cluster). So what is not answered is not followed by another.
    `due_at_s` comes once a second: a crash then repeats at most two seconds' work.
    """

    def __init__(
        self, client: Client, now_s: NowS, offsets: Offsets, emit: Callable[[Event], None]
    ) -> None:
        self._client = client
        self._now_s = now_s
        self._offsets = offsets
        self._emit = emit
        self.due_at_s = 0.0
        self._give_up_at_s = 0.0

    def send(self) -> None:
        """Commits what is done, except for partitions with a commit under way."""
        now_s = self._now_s()
        self.due_at_s = now_s + COMMIT_EVERY_S
        uncommitted = self._offsets.uncommitted()
        awaits = self._client.awaits_commit
        ready = {key: offset for key, offset in uncommitted.items() if not awaits(key)}
        if len(ready) == len(uncommitted):
            self._give_up_at_s = now_s + UNANSWERED_FOR_S
        elif now_s >= self._give_up_at_s:
            # To commit nothing of it any more, for want of an answer, would be worse.
            ready, self._give_up_at_s = uncommitted, now_s + UNANSWERED_FOR_S
        if ready:
            self._client.commit(ready)

    def commit_first(self, partition: Partition, offset: int) -> None:
        """Commits the group's first offset, and waits for it. Raises `KafkaException`."""
        self._client.commit_now({partition: offset})
        self._offsets.note_first_commit(partition)
        self._offsets.committed({partition: offset})

    def commit_revoked(self, partitions: Iterable[Partition]) -> None:
        """Commits what is done of these, and waits for it.

        A zombie gets a revoke too, where it should get a loss (librdkafka #5604): any
        answer is tolerated.
        """
        done = self._offsets.uncommitted(partitions)
        if done:
            try:
                self._client.commit_now(done)
            except KafkaException as error:
                self._emit(CommitFailed(str(error), tuple(done)))
