"""Faults of librdkafka where a partition is paused, sought and read."""

from collections import Counter, deque
from dataclasses import dataclass, field

from confluent_kafka import KafkaError

from linear_retry.scope import Partition


@dataclass
class ReadingFaults:
    """Switches about partitions. What is used up is used up by whichever consumer comes first."""

    late_resume_s: float = 0.0
    """A resumed partition delivers so much later, unless it is sought after the resume."""
    late_fetch_s: float = 0.0
    """The first message after an assign or a seek comes so much later: a slow broker."""
    broker_ahead_s: float = 0.0
    """So far is the broker's clock ahead of everybody else's; below 0: behind."""
    pause_loses_seek: bool = False
    """A pause right after a seek undoes the seek (librdkafka #3471)."""
    few_at_once: int = 0
    """No more than these come of one call, however many are asked for; 0: as many as there are."""
    leaderless: frozenset[Partition] = frozenset()
    """No broker answers for these when it is asked for an offset: their leader is away."""
    _leaks: Counter[Partition] = field(default_factory=Counter)
    _races: Counter[Partition] = field(default_factory=Counter)
    _early_seeks: Counter[Partition] = field(default_factory=Counter)
    _spoilt: Counter[Partition] = field(default_factory=Counter)
    _dead: set[Partition] = field(default_factory=set)
    _jumps: dict[Partition, int] = field(default_factory=dict)
    _stale: set[Partition] = field(default_factory=set)
    _rewinds: dict[Partition, int] = field(default_factory=dict)
    _echoes: set[Partition] = field(default_factory=set)
    _seeks: deque[KafkaError] = field(default_factory=deque)
    _ignored_pauses: int = 0
    _silent_edges: int = 0

    def leak(self, partition: Partition, count: int = 1) -> None:
        """A paused partition delivers `count` messages all the same (librdkafka #5591)."""
        self._leaks[partition] += count

    def race(self, partition: Partition, times: int = 1) -> None:
        """Paused right after the next assign it is not paused, and all of it comes.

        Until it is paused once more (librdkafka #5591: 6 of 346,400).
        """
        self._races[partition] += times

    def ignore_pause(self, times: int = 1) -> None:
        """The next calls of `pause` have no effect and say nothing."""
        self._ignored_pauses += times

    def kill(self, partition: Partition) -> None:
        """At the next assign, pause, resume or seek it dies: nothing comes, position is -1001.

        Resume and seek do not help; assigning again does.
        """
        self._dead.add(partition)

    def jump(self, partition: Partition, to_offset: int) -> None:
        """The first message after the next assign or seek is a later one, once.

        Never twice the same later one from one place: that was never seen, and means a gap.
        """
        self._jumps[partition] = to_offset

    def stale(self, partition: Partition) -> None:
        """The first message after the next seek is the one before, once."""
        self._stale.add(partition)

    def rewind(self, partition: Partition, back: int) -> None:
        """Amid what it reads it goes back by so many offsets, once, and reads on from there.

        Though nothing was assigned, resumed or sought (librdkafka #4637, #4686).
        """
        self._rewinds[partition] = back

    def echo(self, partition: Partition) -> None:
        """That no offset is committed, or which one is out of range, is reported once more.

        When messages have come already.
        """
        self._echoes.add(partition)

    def fail_seek(self, code: int, times: int = 1) -> None:
        """The next seeks, of whatever partition, are refused."""
        self._seeks.extend(KafkaError(code, "Failed to seek to offset") for _ in range(times))

    def refuse_early_seek(self, partition: Partition, times: int = 1) -> None:
        """Seeks between the next assign and the first message are refused with `_STATE`.

        As 700 of 9,000 right after a rebalance (librdkafka #2190, #5345).
        """
        self._early_seeks[partition] += times

    def silence_edges(self, times: int = 1) -> None:
        """Asked for the first offset and the end, no broker answers in time."""
        self._silent_edges += times

    def spoil_headers(self, partition: Partition, times: int = 1) -> None:
        """The next messages have a header whose name is not UTF-8.

        Their first `headers()` raises SystemError, and what later ones return ends the process
        where it is touched (confluent-kafka 2.16.1).
        """
        self._spoilt[partition] += times

    def takes_leak(self, partition: Partition) -> bool:
        return _takes(self._leaks, partition)

    def has_leak(self, partition: Partition) -> bool:
        return bool(self._leaks) and self._leaks[partition] > 0

    def takes_race(self, partition: Partition) -> bool:
        return _takes(self._races, partition)

    def takes_early_seek(self, partition: Partition) -> bool:
        return _takes(self._early_seeks, partition)

    def takes_spoilt_headers(self, partition: Partition) -> bool:
        return _takes(self._spoilt, partition)

    def takes_ignored_pause(self) -> bool:
        ignored = self._ignored_pauses > 0
        self._ignored_pauses -= ignored
        return ignored

    def takes_silent_edge(self) -> bool:
        silent = self._silent_edges > 0
        self._silent_edges -= silent
        return silent

    def takes_death(self, partition: Partition) -> bool:
        dies = partition in self._dead
        self._dead.discard(partition)
        return dies

    def takes_jump(self, partition: Partition) -> int | None:
        return self._jumps.pop(partition, None)

    def takes_rewind(self, partition: Partition) -> int:
        return self._rewinds.pop(partition, 0)

    def takes_echo(self, partition: Partition) -> bool:
        comes = partition in self._echoes
        self._echoes.discard(partition)
        return comes

    def takes_stale(self, partition: Partition) -> bool:
        comes = partition in self._stale
        self._stale.discard(partition)
        return comes

    def takes_seek_error(self) -> KafkaError | None:
        return self._seeks.popleft() if self._seeks else None


def _takes(left: Counter[Partition], partition: Partition) -> bool:
    """Whether one is left, which is then used up."""
    if not left or left[partition] <= 0:
        return False
    left[partition] -= 1
    return True
