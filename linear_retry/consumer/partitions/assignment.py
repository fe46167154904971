"""The assigned partitions: their epochs, and which are silent or unreadable."""

import math
from collections.abc import Collection, Iterable
from dataclasses import dataclass, replace

from linear_retry.retry.clock import NowS
from linear_retry.scope import Partition

FIRST_TIMEOUT_S = 5.0
LONGEST_TIMEOUT_S = 300.0
# Longer than the heartbeat interval (3 s by default): a removed member has learned of it by then.
RECLAIM_AFTER_S = 5.0
_REREAD_DELAYS_S = (5.0, 10.0, 30.0, 60.0)


@dataclass(slots=True)
class _Silence:
    """`serial` identifies the expectation; after `check_at_s` the partition may be stalled."""

    serial: int
    check_at_s: float
    timeout_s: float


@dataclass(frozen=True, slots=True)
class Unreadable:
    """A partition whose next batch, at `offset`, exists but cannot be read by librdkafka.

    `is_stopped`: it is paused until `retry_at_s`; otherwise it is being read again.
    """

    offset: int
    tries: int
    since_s: float
    retry_at_s: float
    is_stopped: bool = True


class Assignment:
    """The partitions of this member.

    A partition is *silent* from an assign, resume or seek until it delivers a message or its end.
    Its first offset is checked (`Offsets`); if it stays silent, it may be stalled: librdkafka
    stalls 1 of some 60,000 paused in `on_assign` (librdkafka #5591). `arrived` has the offset of
    the last message that each has delivered since it was silent. `epochs` has the assigned
    partitions: one that was revoked and assigned again has another epoch. `stopped` are the
    `unreadable` ones to be paused. `due_at_s` is when a watchdog must next check any.
    """

    def __init__(self, now_s: NowS) -> None:
        self.now_s = now_s
        self.epoch = 0
        self.serial = 0
        self.epochs: dict[Partition, int] = {}
        self.arrived: dict[Partition, int] = {}
        self._silent: dict[Partition, _Silence] = {}
        self._suspect: dict[Partition, float] = {}
        self.unreadable: dict[Partition, Unreadable] = {}
        self.due_at_s = math.inf

    def __contains__(self, partition: object) -> bool:
        return partition in self.epochs

    @property
    def partitions(self) -> tuple[Partition, ...]:
        return tuple(self.epochs)

    @property
    def stopped(self) -> frozenset[Partition]:
        return frozenset(key for key, each in self.unreadable.items() if each.is_stopped)

    @property
    def undisturbed(self) -> bool:
        """Whether all that librdkafka delivers is ours and follows its last delivery."""
        return not self._silent and not self._suspect

    def have_delivered(self, partitions: Iterable[Partition]) -> bool:
        """Whether all of these are ours, and none is silent."""
        return all(key in self.epochs and key not in self._silent for key in partitions)

    def is_silent(self, partition: Partition) -> bool:
        return partition in self._silent

    def is_stale(self, partition: Partition, serial: int) -> bool:
        """Whether what arrived at `serial` is outdated: a later seek or restart delivers it again.

        Also true if the partition is not ours any more.
        """
        silence = self._silent.get(partition)
        return partition not in self.epochs or (silence is not None and silence.serial > serial)

    def suspiciously_silent(self) -> list[Partition]:
        now_s = self.now_s()
        return [key for key, silence in self._silent.items() if now_s >= silence.check_at_s]

    def reclaimable(self) -> list[Partition]:
        """Partitions that we marked as lost and that no member seems to have taken since."""
        now_s = self.now_s()
        return [key for key, at_s in self._suspect.items() if now_s >= at_s]

    def rereadable(self) -> list[Partition]:
        now_s = self.now_s()
        return [key for key in self.stopped if self.unreadable[key].retry_at_s <= now_s]

    def take(self, partitions: Iterable[Partition]) -> None:
        """Assigns them, each with a new epoch in which nothing has been delivered yet."""
        self.epoch += 1
        for partition in partitions:
            self.epochs[partition] = self.epoch
            self._suspect.pop(partition, None)
            self._silent.pop(partition, None)
            self.expect(partition)

    def drop(self, partitions: Iterable[Partition]) -> None:
        self.epoch += 1
        for partition in partitions:
            self.epochs.pop(partition, None)
            self.arrived.pop(partition, None)
            self._silent.pop(partition, None)
            self._suspect.pop(partition, None)
            self.unreadable.pop(partition, None)

    def mark_lost(self, partitions: Collection[Partition]) -> None:
        """Gives up partitions that may be another member's, before librdkafka reports it."""
        self.drop(partitions)
        self._suspect |= dict.fromkeys(partitions, self.now_s() + RECLAIM_AFTER_S)
        self.plan_check()

    def forget_suspects(self) -> None:
        """Forgets those marked as lost: a new client must not reclaim them."""
        self._suspect.clear()

    def expect(self, partition: Partition) -> None:
        """Expects a first message, after a seek, resume or restart. Its timeout is kept."""
        before = self._silent.get(partition)
        timeout_s = before.timeout_s if before else FIRST_TIMEOUT_S
        self.serial += 1
        check_at_s = self.now_s() + timeout_s
        self._silent[partition] = _Silence(self.serial, check_at_s, timeout_s)
        self.arrived.pop(partition, None)
        self.due_at_s = min(self.due_at_s, check_at_s)

    def note_delivered(self, partition: Partition) -> None:
        """Notes that the partition delivered an expected message, or its end."""
        self._silent.pop(partition, None)

    def extend_timeout(self, partition: Partition) -> None:
        """Doubles the time to the next check, after a revival or a false alarm."""
        silence = self._silent.get(partition)
        if silence is None:
            return
        silence.timeout_s = min(silence.timeout_s * 2, LONGEST_TIMEOUT_S)
        silence.check_at_s = self.now_s() + silence.timeout_s

    def stop(self, partition: Partition, offset: int) -> Unreadable:
        """Marks it as unreadable at `offset`, and sets when it is read again."""
        before, now_s = self.unreadable.get(partition), self.now_s()
        tries, since_s = (1, now_s) if before is None else (before.tries + 1, before.since_s)
        delay_s = _REREAD_DELAYS_S[min(tries, len(_REREAD_DELAYS_S)) - 1]
        found = Unreadable(offset, tries, since_s, now_s + delay_s)
        self.unreadable[partition] = found
        self.plan_check()
        return found

    def reread(self, partition: Partition) -> None:
        self.unreadable[partition] = replace(self.unreadable[partition], is_stopped=False)

    def note_readable(self, partition: Partition) -> None:
        self.unreadable.pop(partition, None)

    def plan_check(self) -> None:
        """Sets when the next check is due, after the watchdogs have run."""
        silent = [silence.check_at_s for silence in self._silent.values()]
        stopped = [self.unreadable[key].retry_at_s for key in self.stopped]
        self.due_at_s = min([*silent, *self._suspect.values(), *stopped], default=math.inf)
