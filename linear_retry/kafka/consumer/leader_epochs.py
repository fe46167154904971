"""The leaders that wrote a partition's messages: by them a log is known to have been cut."""

from linear_retry.kafka import Message
from linear_retry.scope import Partition

_MOST = 100
"""Leaders remembered of each partition: one that is older than these is not known."""


class LeaderEpochs:
    """The leader epochs of what arrived, by partition.

    Each commit has one (KIP-320), and the next owner begins with it: where a log was cut and
    written again meanwhile, that leader's part ends before the commit.
    """

    def __init__(self) -> None:
        self._began: dict[Partition, list[tuple[int, int | None]]] = {}

    def begin(self, partition: Partition, committed: int, leader_epoch: int | None) -> None:
        """Begins at a committed offset, with the epoch beside it."""
        self._began[partition] = [(committed - 1, leader_epoch)]

    def forget(self, partition: Partition) -> None:
        """Forgets a partition that is not ours any more."""
        self._began.pop(partition, None)

    def is_same(self, message: Message, partition: Partition) -> bool:
        """Whether the last leader known of its partition has written this message too."""
        began = self._began.get(partition)
        return began is not None and began[-1][1] == message.leader_epoch()

    def note(self, message: Message, partition: Partition, offset: int) -> None:
        """Notes a message that has arrived, maybe once more."""
        if self.is_same(message, partition):
            return
        before = [each for each in self._began.get(partition, ()) if each[0] < offset]
        self._began[partition] = [*before, (offset, message.leader_epoch())][-_MOST:]

    def last(self, partition: Partition) -> tuple[int, int | None]:
        """Returns from which offset on its last leader has written, and that one's epoch."""
        return self._began[partition][-1]

    def note_end(self, partition: Partition, known_to: int, end: int) -> None:
        """Notes that the partition ends at `end`, and what is below `known_to` has arrived.

        Between them are markers, which have no epoch that we see, and maybe a later leader's. A
        commit behind them with the epoch of the message before would be behind the end of that
        leader's part, as in a log that was cut.
        """
        first, leader_epoch = self.last(partition)
        known_to = max(known_to, first + 1)
        if end > known_to and leader_epoch is not None:
            self._began[partition].append((known_to + 1, None))

    def at(self, partition: Partition, offset: int) -> int | None:
        """Returns the epoch to commit beside this offset: that of the message there, or before.

        That before it does not do where another is known: what is between them may be of either.
        None: not known.
        """
        began = reversed(self._began.get(partition, ()))
        return next((leader_epoch for first, leader_epoch in began if first <= offset), None)
