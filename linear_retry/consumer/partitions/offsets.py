"""The offsets of the assigned partitions: done, committed, and next."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal, Protocol, TypeAlias

from linear_retry.events import CommitFailed, Event
from linear_retry.kafka import KafkaException
from linear_retry.kafka.consumer.client import Client, NoteOf, no_note
from linear_retry.retry.clock import NowS
from linear_retry.scope import Partition

COMMIT_EVERY_S = 1.0
NOTES_EVERY_S = 10.0
"""Between two commits for the sake of a note alone, of a message that fails again and again."""
UNANSWERED_FOR_S = 60.0
"""librdkafka normally answers sooner: after this, a commit's answer is considered lost."""
_UNLIMITED = 2**63 - 1
_NOTHING = -1

OffsetClass: TypeAlias = Literal["next", "duplicate", "suspect", "gap", "reset"]

StartPositions: TypeAlias = Callable[[Sequence[Partition]], Mapping[Partition, int | None]]
"""Where newly assigned partitions start, whatever the group has committed; None: where it has.

Called by the owner thread after each assignment, with what is new in it, and again for those that
are left out, which are paused until then. What it raises ends the run, and the next use asks again.
"""


class OnStart(Protocol):
    """Called with each offset at which a partition starts to be read."""

    def __call__(self, partition: Partition, offset: int, *, is_another_log: bool) -> object: ...


@dataclass(slots=True)
class _Position:
    """One assigned partition. Each offset is that of the next message, as Kafka commits it."""

    next_offset: int | None = None
    began: int | None = None
    is_unchecked: bool = False
    committed: int | None = None
    note: str = ""
    limit: int = _UNLIMITED
    suspected: int | None = None
    reset_to: int | None = None
    has_commit: bool = True
    in_transaction: bool = False
    tail: tuple[int, int] = (0, 0)
    gone: tuple[int, int] | None = None

    def pass_tail(self) -> None:
        """Goes to the end of the tail, if everything before it is done."""
        start, end = self.tail
        if self.next_offset == start < end:
            self.next_offset = end


class Offsets:
    """The positions of the assigned partitions, in the current epoch only.

    `next_offset` is the first unhandled offset: it is committed, and every seek goes there. None:
    nothing has been delivered yet, so the committed offset decides.
    """

    def __init__(
        self,
        note_of: NoteOf = no_note,
        on_start: OnStart | None = None,
    ) -> None:
        """`note_of` gives what is committed beside an offset."""
        self._note_of = note_of
        self._on_start = on_start
        self._positions: dict[Partition, _Position] = {}

    def __contains__(self, partition: Partition) -> bool:
        return partition in self._positions

    def next_offset(self, partition: Partition) -> int | None:
        """Returns the next offset; None also if the partition is not ours any more. Thread-safe."""
        position = self._positions.get(partition)
        return None if position is None else position.next_offset

    def starts(self) -> dict[Partition, int | None]:
        """Returns the offset at which each partition would restart; None: the committed one."""
        return {
            key: position.next_offset if position.reset_to is None else position.reset_to
            for key, position in self._positions.items()
        }

    def uncommitted(
        self, partitions: Iterable[Partition] | None = None, *, notes: bool = True
    ) -> dict[Partition, int]:
        """Returns what is done and not known to be committed, of all partitions or of these.

        With `notes` also where only the note is another one.

        Leaves out partitions in a transaction, which may have committed more. Of a log that was
        cut it is at most where the log ends, also if more was committed before.
        """
        found: dict[Partition, int] = {}
        for key in self._positions if partitions is None else partitions:
            position = self._positions.get(key)
            if position is None or position.next_offset is None or position.in_transaction:
                continue
            offset = min(position.next_offset, position.limit)
            note = self._note_of(key, offset)
            # Not known yet, it would be cleared.
            if offset == _NOTHING or note is None:
                continue
            if offset != position.committed or (notes and note != position.note):
                found[key] = offset
        return found

    def is_committed(self, place: tuple[Partition, int]) -> bool:
        """Whether this offset of the partition is known to be committed, with whatever note."""
        partition, offset = place
        return self._positions[partition].committed == offset

    def last_committed(self, partition: Partition) -> tuple[int | None, str]:
        """Returns what is known to be committed, None for nothing, and the note beside it."""
        position = self._positions[partition]
        return position.committed, position.note

    def began(self, partition: Partition) -> int | None:
        """Returns where this ownership began; None: nothing has been delivered yet."""
        position = self._positions.get(partition)
        return None if position is None else position.began

    def classify_offset(
        self, partition: Partition, offset: int, last_kept: int | None = None
    ) -> OffsetClass:
        """Classifies the first offset after an assign, a resume, a seek or an exception.

        A lower one was handled before. A higher one may have skipped messages that were dropped on
        the way (librdkafka's position is not ours), so it is suspect at first: seek and compare.
        The same offset again is a real gap: transaction markers, compaction. After a reset any
        offset is accepted, and the partition restarts there.
        """
        position = self._positions[partition]
        if position.reset_to is not None:
            position.reset_to = None
            return "reset"
        expected = position.next_offset if last_kept is None else last_kept + 1
        if expected is None or offset == expected:
            return "next"
        if offset < expected:
            return "duplicate"
        if position.suspected == offset:
            return "gap"
        position.suspected = offset
        return "suspect"

    def has_commit(self, partition: Partition) -> bool:
        """Whether the group has a committed offset; if not, its first is committed before use."""
        return self._positions[partition].has_commit

    def is_in_transaction(self, partition: Partition) -> bool:
        """Whether a transaction with an unknown outcome may have committed its next offset."""
        return self._positions[partition].in_transaction

    def is_old_news(self, partition: Partition, missing_offset: int | None) -> bool:
        """Whether this report of a missing offset (None: none is committed) is outdated.

        librdkafka may report it twice, the second time when the partition already reads on. Another
        reset would then repeat everything handled since.
        """
        position = self._positions[partition]
        if missing_offset is None:
            return position.next_offset is not None or position.reset_to is not None
        return position.next_offset is not None and missing_offset < position.next_offset

    def to_read(self, partition: Partition, committed: int, end: int) -> int:
        """Counts the offsets from `committed` to `end`, without those known not to be messages.

        Thread-safe.
        """
        position = self._positions.get(partition)
        first, last = (0, 0) if position is None else position.tail
        hidden = max(min(last, end) - max(first, committed), 0)
        return max(end - committed - hidden, 0)

    def begin(self, partitions: Iterable[Partition]) -> None:
        self._positions |= {partition: _Position() for partition in partitions}

    def forget(self, partitions: Iterable[Partition]) -> None:
        """Forgets revoked or lost partitions: we must not commit them any more."""
        for partition in partitions:
            self._positions.pop(partition, None)

    def start_at(
        self,
        partition: Partition,
        offset: int,
        *,
        by_commit: bool = False,
        is_another_log: bool = False,
    ) -> None:
        """Sets the start: the first message delivered, or the end of an empty partition.

        After a reset the committed offset does not count: in a topic that was deleted and recreated
        the offsets are lower. `by_commit`: it does, and the log may have been cut below it.
        `is_another_log`: what was done from there on is not.
        """
        position = self._positions[partition]
        position.next_offset = position.began = offset
        position.is_unchecked = by_commit
        position.committed = None
        position.reset_to = None
        position.tail = (0, 0)
        position.gone = None
        if self._on_start is not None:
            self._on_start(partition, offset, is_another_log=is_another_log)

    def take_unchecked(self, partition: Partition) -> bool:
        """Whether nobody has looked yet if its log was cut below the commit where it started."""
        position = self._positions[partition]
        was_unchecked, position.is_unchecked = position.is_unchecked, False
        return was_unchecked

    def limit_commits(self, partition: Partition, to: int | None) -> None:
        """Notes that its log was cut at `to`: the next owner must not begin behind it.

        What is in memory is still handled, and done, beyond it. None: where is not known yet, and
        nothing is committed.
        """
        self._positions[partition].limit = _NOTHING if to is None else to

    def reset(self, partition: Partition, to: int, *, has_commit: bool) -> None:
        """Notes a reset to `to` by `auto.offset.reset`: the next offset to arrive is accepted.

        What is done stays: messages in memory may be from before the lost range.
        """
        position = self._positions[partition]
        position.reset_to = to
        position.has_commit = has_commit
        position.tail = (0, 0)

    def note_first_commit(self, partition: Partition) -> None:
        self._positions[partition].has_commit = True

    def note_gone(self, partition: Partition, start: int, end: int) -> None:
        """Notes that `start` to `end` is lost: it counts as done once everything before it is."""
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
            position.pass_tail()

    def note_tail(self, partition: Partition, start: int, end: int) -> None:
        """Notes that `start` to `end` has no messages: transaction markers, or aborted records.

        They count as done once everything before them is. A committed offset among them would be
        out of range, like that of a lost message, when retention removes what nobody could see.
        """
        self._positions[partition].tail = start, end
        self._positions[partition].pass_tail()

    def committed(self, offsets: Mapping[Partition, tuple[int, str]]) -> None:
        """Notes acknowledged commits, each an offset and its note.

        They replace the committed offset even if they are lower.
        """
        for partition, committed in offsets.items():
            position = self._positions.get(partition)
            if position is not None:
                position.committed, position.note = committed

    def begin_transaction(self, partition: Partition) -> None:
        """Stops its commits: one could arrive after the transaction's, and undo that."""
        self._positions[partition].in_transaction = True

    def end_transaction(self, partition: Partition) -> None:
        """Allows commits again: the transaction's outcome is known."""
        if partition in self._positions:
            self._positions[partition].in_transaction = False


class OffsetCommits:
    """Commits what is done, one commit at a time per partition.

    librdkafka retries a commit that the coordinator could not serve, and a later one may overtake
    it: the broker then ends up with the older offset (five of six errors did that every time, with
    librdkafka 2.16 on its mock cluster). So no commit follows an unanswered one. One is due every
    second (`due_at_s`): a crash then repeats at most two seconds' work.
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
        self._notes_due_at_s = 0.0

    def send(self) -> None:
        """Commits what is done, except for partitions with a commit in flight."""
        now_s = self._now_s()
        self.due_at_s = now_s + COMMIT_EVERY_S
        uncommitted = self._offsets.uncommitted(notes=now_s >= self._notes_due_at_s)
        if any(map(self._offsets.is_committed, uncommitted.items())):
            self._notes_due_at_s = now_s + NOTES_EVERY_S
        awaits = self._client.awaits_commit
        ready = {key: offset for key, offset in uncommitted.items() if not awaits(key)}
        if len(ready) == len(uncommitted):
            self._give_up_at_s = now_s + UNANSWERED_FOR_S
        elif now_s >= self._give_up_at_s:
            # Never to commit it again, for lack of an answer, would be worse.
            ready, self._give_up_at_s = uncommitted, now_s + UNANSWERED_FOR_S
        if ready:
            self._client.commit(ready)

    def commit_first(self, partition: Partition, offset: int) -> None:
        """Commits the group's first offset, and waits for it. Raises `KafkaException`."""
        self._client.commit_now({partition: offset})
        self._offsets.note_first_commit(partition)
        note = self._client.note_of(partition, offset) or ""
        self._offsets.committed({partition: (offset, note)})

    def commit_revoked(self, partitions: Iterable[Partition]) -> None:
        """Commits what is done in these partitions, and waits for the answer.

        A zombie also gets a revoke, where it should get a loss (librdkafka #5604), so any answer is
        tolerated.
        """
        done = self._offsets.uncommitted(partitions)
        if done:
            try:
                self._client.commit_now(done)
            except KafkaException as error:
                self._emit(CommitFailed(str(error), tuple(done)))
