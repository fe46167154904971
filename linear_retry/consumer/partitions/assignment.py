"""Which partitions are ours, in which epoch, and which of them have not spoken yet?"""

from __future__ import annotations

from collections.abc import Collection, Iterable
from dataclasses import dataclass

from linear_retry.scope import Partition

FIRST_PATIENCE_S = 5.0
LONGEST_PATIENCE_S = 300.0
# Longer than the heartbeat interval (3 s unless set): a member that is out hears of it by then.
RECLAIM_AFTER_S = 5.0


@dataclass(slots=True)
class _Silence:
    """Which expectation it is, and when to look whether the partition is dead."""

    serial: int
    check_at_s: float
    patience_s: float


class Assignment:
    """The partitions of this member.

    A partition is *silent* from an assign, resume or seek until it delivers a message or its end:
    until then its first offset is not believed (`Offsets`), and after a while it may be dead
    (librdkafka leaves one so in about 1 of 60,000 pauses in `on_assign`; librdkafka #5591).
    """

    def __init__(self) -> None:
        self.epoch = 0
        self.serial = 0
        self._epochs: dict[Partition, int] = {}
        self._silent: dict[Partition, _Silence] = {}
        self._suspect: dict[Partition, float] = {}

    # -- questions -------------------------------------------------------------------------

    def __contains__(self, partition: Partition) -> bool:
        return partition in self._epochs

    @property
    def partitions(self) -> tuple[Partition, ...]:
        return tuple(self._epochs)

    @property
    def undisturbed(self) -> bool:
        """Everything that librdkafka delivers is ours, and follows what it delivered before."""
        return not self._silent and not self._suspect

    def have_delivered(self, partitions: Iterable[Partition]) -> bool:
        """Whether all of these are ours, and have delivered what was believed."""
        return all(key in self._epochs and key not in self._silent for key in partitions)

    def is_silent(self, partition: Partition) -> bool:
        return partition in self._silent

    def is_stale(self, partition: Partition, serial: int) -> bool:
        """Whether what arrived when `serial` was that will come again, as something was done since.

        Or not at all, to us: it is another member's.
        """
        silence = self._silent.get(partition)
        return partition not in self._epochs or (silence is not None and silence.serial > serial)

    def epoch_of(self, partition: Partition) -> int | None:
        """None where it is not ours. A partition that went and came back has another epoch."""
        return self._epochs.get(partition)

    def suspiciously_silent(self, now_s: float) -> list[Partition]:
        """Those that have delivered nothing for longer than their patience."""
        return [key for key, silence in self._silent.items() if now_s >= silence.check_at_s]

    def reclaimable(self, now_s: float) -> list[Partition]:
        """Those that we gave up of our own accord, and that nobody has taken from us since."""
        return [key for key, at_s in self._suspect.items() if now_s >= at_s]

    # -- commands --------------------------------------------------------------------------

    def take(self, partitions: Iterable[Partition], now_s: float) -> None:
        """Assigned: a new epoch, in which nothing has been delivered yet."""
        self.epoch += 1
        for partition in partitions:
            self._epochs[partition] = self.epoch
            self._suspect.pop(partition, None)
            self._silent.pop(partition, None)
            self.expect(partition, now_s)

    def drop(self, partitions: Iterable[Partition]) -> None:
        """Revoked or lost."""
        self.epoch += 1
        for partition in partitions:
            self._epochs.pop(partition, None)
            self._silent.pop(partition, None)
            self._suspect.pop(partition, None)

    def mark_lost(self, partitions: Collection[Partition], now_s: float) -> None:
        """Give up what may be another's by now, though librdkafka has not said so."""
        self.drop(partitions)
        self._suspect |= dict.fromkeys(partitions, now_s + RECLAIM_AFTER_S)

    def forget_doubts(self) -> None:
        """What we gave up of our own accord is not the new client's to take back."""
        self._suspect.clear()

    def expect(self, partition: Partition, now_s: float) -> None:
        """Something was done to it: its next message is a first one. Patience is kept."""
        before = self._silent.get(partition)
        patience_s = before.patience_s if before else FIRST_PATIENCE_S
        self.serial += 1
        self._silent[partition] = _Silence(self.serial, now_s + patience_s, patience_s)

    def note_delivered(self, partition: Partition) -> None:
        """It has delivered a message that is believed, or its end."""
        self._silent.pop(partition, None)

    def extend_timeout(self, partition: Partition, now_s: float) -> None:
        """Nothing was wrong, or it was revived: look again after twice the time."""
        silence = self._silent.get(partition)
        if silence is None:
            return
        silence.patience_s = min(silence.patience_s * 2, LONGEST_PATIENCE_S)
        silence.check_at_s = now_s + silence.patience_s
