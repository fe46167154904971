"""Fetches the next message of an assigned partition."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal

from confluent_kafka import OFFSET_BEGINNING, OFFSET_END, OFFSET_INVALID, KafkaError, Message

from linear_retry.scope import Partition
from tests.fake.clock import VirtualClock
from tests.fake.faults import Faults
from tests.fake.messages import error_message, message
from tests.fake.topic import PartitionLog, Record

_ASKS_AGAIN_S = 0.5
_LOGICAL = (OFFSET_BEGINNING, OFFSET_END)
_NONE_COMMITTED = "no previously committed offset available: Local: No offset stored"
_OUT_OF_RANGE = (
    "fetch failed due to requested offset not available on the broker: "
    "Broker: Offset out of range (broker 1)"
)
_GARBAGE = 8680820740569200760
_CHECKSUM = "MessageSet failed CRC32C check (original 0xa5843006 != calculated 0x2308749f)"
_MAGIC = f"Unsupported Message(Set) MagicByte 120 at offset {_GARBAGE}"


@dataclass(slots=True)
class Fetch:
    """One assigned partition. `start` may be logical, `next_offset` is None until it is resolved.

    `position` is what `position()` says: -1001 until something was delivered from `start`.
    `before_seek` is where it was; `epoch` the leader's epoch at the last delivery; `sought_epoch`
    the one that was given to the seek.
    """

    start: int
    next_offset: int | None = None
    position: int = OFFSET_INVALID
    first_after: Literal["assign", "seek"] | None = "assign"
    eof_told: bool = False
    stopped: bool = False
    dead: bool = False
    ready_at_s: float = 0.0
    before_seek: int | None = None
    garbage: bool = False
    epoch: int = 0
    sought_epoch: int | None = None


class Fetching:
    """The assigned partitions of one consumer, and which of them are paused.

    The pause flag is the partition's, not the assignment's: it survives revoke and re-assignment,
    as in librdkafka. A partition that this client never had cannot be paused.
    """

    def __init__(
        self,
        clock: VirtualClock,
        faults: Faults,
        log_of: Callable[[Partition], PartitionLog | None],
        committed: Callable[[Partition], int | None],
        undecided: Callable[[Partition], bool],
        *,
        reset: str,
        tells_eof: bool,
    ) -> None:
        self.assigned: dict[Partition, Fetch] = {}
        self._clock = clock
        self._faults = faults
        self._log_of = log_of
        self._committed = committed
        self._undecided = undecided
        self._reset = reset
        self._tells_eof = tells_eof
        self._paused: set[Partition] = set()
        self._known_topics: set[str] = set()
        self._asked: set[Partition] = set()
        self._deaf: set[Partition] = set()
        self._removed: dict[Partition, int] = {}
        self._jumped: set[tuple[Partition, int, int]] = set()
        self._logs: dict[Partition, PartitionLog] = {}
        self._turn = 0

    def begin(self, partition: Partition, start: int) -> None:
        self._known_topics.add(partition[0])
        dead = self._faults.takes_death(partition)
        self.assigned[partition] = Fetch(start, dead=dead, ready_at_s=self._first_at_s())
        self._deaf.discard(partition)
        if start in _LOGICAL and partition in self._asked:
            self._clock.at(_ASKS_AGAIN_S, lambda: self._ask_again(partition, start))

    def end(self, partition: Partition) -> None:
        fetch = self.assigned.pop(partition, None)
        self._asked.discard(partition)
        if fetch is not None and fetch.start in _LOGICAL and fetch.next_offset is None:
            self._asked.add(partition)

    def _ask_again(self, partition: Partition, start: int) -> None:
        """An answer that came too late for the assignment before leaves a timer behind: when it
        fires, the partition is read from there once more, wherever it is (measured)."""
        log, fetch = self._log_of(partition), self.assigned.get(partition)
        if log is not None and fetch is not None:
            fetch.next_offset = log.low if start == OFFSET_BEGINNING else log.end

    def pause(self, partition: Partition) -> None:
        if partition[0] not in self._known_topics:
            return
        self._paused.add(partition)
        fetch = self.assigned.get(partition)
        if fetch is None:
            return
        untouched = fetch.first_after == "assign" and partition not in self._deaf
        if untouched and self._faults.takes_race(partition):
            self._deaf.add(partition)
        else:
            self._deaf.discard(partition)
        if self._faults.pause_loses_seek and fetch.first_after == "seek":
            fetch.next_offset = fetch.before_seek
        self._may_die(partition)

    def resume(self, partition: Partition) -> None:
        if partition not in self._paused:
            return
        self._paused.discard(partition)
        self._deaf.discard(partition)
        self._may_die(partition)
        fetch = self.assigned.get(partition)
        if fetch is not None:
            fetch.eof_told = False
            fetch.ready_at_s = self._clock.now_s() + self._faults.late_resume_s

    def refusal(self, partition: Partition) -> int | None:
        """Why this partition cannot be sought: an error code."""
        fetch = self.assigned.get(partition)
        if fetch is None:
            known = partition[0] in self._known_topics
            return KafkaError._STATE if known else KafkaError._UNKNOWN_PARTITION
        if fetch.first_after == "assign" and self._faults.takes_early_seek(partition):
            return KafkaError._STATE
        # After a failed offset reset only an assignment starts it again (measured).
        return KafkaError._STATE if fetch.stopped else None

    def seek(self, partition: Partition, offset: int, leader_epoch: int | None = None) -> None:
        # A seek after a resume fetches at once: the lateness of the resume is not carried over.
        self._may_die(partition)
        before = self.assigned[partition]
        self.assigned[partition] = Fetch(
            offset,
            first_after="seek",
            dead=before.dead,
            ready_at_s=self._first_at_s(),
            before_seek=before.next_offset,
            sought_epoch=leader_epoch,
        )

    def _first_at_s(self) -> float:
        late_s = self._faults.late_fetch_s
        return self._clock.now_s() + late_s if late_s else 0.0

    def _may_die(self, partition: Partition) -> None:
        fetch = self.assigned.get(partition)
        if fetch is not None and self._faults.takes_death(partition):
            fetch.dead = True

    def take(self) -> Message | None:
        """The next message or error of any partition, in turn; None where nothing is there."""
        partitions = list(self.assigned)
        count = len(partitions)
        for step in range(self._turn, self._turn + count):
            index = step % count
            found = self._take_from(partitions[index])
            if found is not None:
                self._turn = index + 1
                return found
        return None

    def ready_at_s(self) -> float | None:
        """When the next late resume takes effect, if one is due."""
        now_s = self._clock.now_s()
        late = [one.ready_at_s for one in self.assigned.values() if one.ready_at_s > now_s]
        return min(late) if late else None

    def _take_from(self, partition: Partition) -> Message | None:
        fetch = self.assigned[partition]
        if fetch.dead:
            fetch.position = OFFSET_INVALID
            return None
        paused = partition in self._paused and partition not in self._deaf
        leaks = paused and self._faults.has_leak(partition)
        if fetch.stopped or (paused and not leaks):
            return None
        log = self._log_of(partition)
        if log is None or fetch.ready_at_s > self._clock.now_s():
            return None
        if self._logs.setdefault(partition, log) is not log and log.is_fenced:
            return None  # it has the leader epoch of the earlier topic, which is higher (measured)
        if fetch.position > 0 and self._faults.takes_echo(partition):
            removed = self._removed.get(partition)
            text = _NONE_COMMITTED if removed is None else _OUT_OF_RANGE
            return error_message(partition, KafkaError._AUTO_OFFSET_RESET, text, removed)
        stored = fetch.next_offset is None and fetch.start < OFFSET_BEGINNING
        if stored and self._undecided(partition):
            return None  # where to begin is asked for until an open transaction has ended
        refused = (
            self._truncated(partition, fetch, log)
            or self._settle_start(partition, fetch, log)
            or self._unread(partition, fetch, log)
        )
        if refused is not None:
            return refused
        return self._deliver(partition, fetch, log, leaks=leaks)

    def _truncated(self, partition: Partition, fetch: Fetch, log: PartitionLog) -> Message | None:
        """Noticed by who has read since it was assigned, or sought with an epoch (measured)."""
        sought = fetch.first_after is not None
        epoch = fetch.sought_epoch if sought else fetch.epoch
        cut = None if epoch is None else min(log.cuts[epoch:], default=None)
        position = fetch.start if sought else fetch.next_offset
        if cut is None or position is None or position <= cut:
            return None
        fetch.stopped = True
        fetch.position = OFFSET_INVALID
        text = (
            f"Partition log truncation detected at offset {position} (leader epoch {epoch}): "
            f"broker end offset is {cut} (offset leader epoch {epoch}). Reset to INVALID.: "
            "Local: Partition log truncation detected (broker 1)"
        )
        return error_message(partition, KafkaError._AUTO_OFFSET_RESET, text, None)

    def _unread(self, partition: Partition, fetch: Fetch, log: PartitionLog) -> Message | None:
        """What librdkafka says of a batch whose checksum is wrong, in its order."""
        if fetch.garbage:
            fetch.next_offset = _GARBAGE + 1
            return error_message(partition, KafkaError._NOT_IMPLEMENTED, _MAGIC, _GARBAGE)
        record = None if fetch.next_offset is None else log.at_or_after(fetch.next_offset)
        batch = None if record is None else log.corrupt_at(record.offset)
        if batch is None:
            return None
        fetch.garbage = not batch.repeats
        return error_message(partition, KafkaError._BAD_MSG, _CHECKSUM, batch.first)

    def _deliver(
        self, partition: Partition, fetch: Fetch, log: PartitionLog, *, leaks: bool
    ) -> Message | None:
        assert fetch.next_offset is not None
        fetch.epoch = len(log.cuts)
        if fetch.first_after is None:
            back = self._faults.takes_rewind(partition)
            fetch.next_offset = max(fetch.next_offset - back, log.low)
        odd = self._misplaced(partition, fetch, log)
        record = odd or log.at_or_after(fetch.next_offset)
        if record is None:
            return None if leaks else self._eof(partition, fetch, log)
        if leaks:
            self._faults.takes_leak(partition)
        if record.offset >= fetch.next_offset:
            fetch.next_offset = record.offset + 1
        fetch.position = record.offset + 1
        fetch.first_after = None
        fetch.eof_told = False
        return message(partition, record, spoilt=self._faults.takes_spoilt_headers(partition))

    def _misplaced(self, partition: Partition, fetch: Fetch, log: PartitionLog) -> Record | None:
        after, next_offset = fetch.first_after, fetch.next_offset
        if after is None or next_offset is None:
            return None
        if fetch.start < 0:
            return None  # never seen where librdkafka itself has looked the offset up
        if after == "seek" and self._faults.takes_stale(partition):
            return log.before(next_offset)
        target = self._faults.takes_jump(partition)
        record = None if target is None else log.at_or_after(max(target, next_offset))
        if record is None or (jump := (partition, next_offset, record.offset)) in self._jumped:
            return None
        self._jumped.add(jump)
        return record

    def _eof(self, partition: Partition, fetch: Fetch, log: PartitionLog) -> Message | None:
        if fetch.next_offset != log.stable_end:
            fetch.eof_told = False  # it has read on, and found nothing but markers (measured)
        fetch.next_offset = log.stable_end
        if fetch.eof_told or not self._tells_eof:
            return None
        fetch.eof_told = True
        fetch.first_after = None
        text = (
            f"Fetch from broker 1 reached end of partition at offset {log.stable_end} "
            f"(HighwaterMark {log.end})"
        )
        return error_message(partition, KafkaError._PARTITION_EOF, text, log.stable_end)

    def _settle_start(
        self, partition: Partition, fetch: Fetch, log: PartitionLog
    ) -> Message | None:
        """Where to begin, or again where retention has run past us. An error message if refused."""
        if fetch.next_offset is None:
            start = self._absolute(partition, fetch.start, log)
            if start is None:
                return self._reset_to(partition, fetch, log, None, _NONE_COMMITTED)
            fetch.next_offset = start
        if fetch.next_offset < log.low:
            self._removed[partition] = fetch.next_offset
        if not log.low <= fetch.next_offset <= log.end:
            fetch.garbage = False
            return self._reset_to(partition, fetch, log, fetch.next_offset, _OUT_OF_RANGE)
        return None

    def _absolute(self, partition: Partition, start: int, log: PartitionLog) -> int | None:
        if start >= 0:
            return start
        if start in _LOGICAL:
            return log.low if start == OFFSET_BEGINNING else log.stable_end
        return self._committed(partition)

    def _reset_to(
        self, partition: Partition, fetch: Fetch, log: PartitionLog, offset: int | None, text: str
    ) -> Message | None:
        if self._reset == "error":
            fetch.stopped = True
            fetch.position = OFFSET_INVALID
            return error_message(partition, KafkaError._AUTO_OFFSET_RESET, text, offset)
        fetch.next_offset = log.low if self._reset in ("earliest", "beginning") else log.end
        return None
