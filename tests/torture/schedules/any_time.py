"""What must be true at any time, and not only at the end."""

from collections import Counter
from collections.abc import Iterator

from linear_retry.scope import Partition, Scope
from tests.torture.schedules.group import KEYS, PlayedGroup


class AnyTime:
    """Writes into the group's log what can be looked up only now, to be judged at the end."""

    def __init__(self, group: PlayedGroup, *, transactional: bool) -> None:
        self._group = group
        self._transactional = transactional
        self._committed: dict[Partition, int] = {}
        self._letters = 0

    def look(self) -> None:
        """What is new since the last look."""
        self._group.unreported.report()
        stored, open_now = self._group.fake.group(self._group.group_id), self._group.unreported.open
        committed = {key: offset for key, offset in stored.items() if key not in open_now}
        if committed != self._committed:
            self._committed = committed
            self._group.witness.committed(committed)
        partitions = self._group.partitions
        most = len(partitions) + len({Scope.of(self._group.pausing, each) for each in partitions})
        most += len(KEYS) * len(partitions) if self._group.keys else 0
        for member in self._group.members:
            # A circuit for each scope: one may have gone, and wait for `retry_at`.
            if member.state_size() > most:
                self._group.witness.state_size(member.name, member.state_size(), most)

    def violations(self) -> Iterator[str]:
        """What no log shows."""
        if self._transactional:
            yield from self._letter_and_offset_are_one()

    def _letter_and_offset_are_one(self) -> Iterator[str]:
        """Each message has one letter at most, and then the group has its offset."""
        letters = self._group.unreported.letters()
        if len(letters) == self._letters:
            return
        self._letters = len(letters)
        ids: Counter[str] = Counter()
        for letter in letters:
            ids[letter.retry_id] += 1
            if not self._group.is_committed(self._group.unreported.origin(letter)):
                yield f"LetterAndOffset: {letter.retry_id} is there, and its offset is not"
        yield from (
            f"OneLetter: {one} has {count} letters" for one, count in ids.items() if count > 1
        )
