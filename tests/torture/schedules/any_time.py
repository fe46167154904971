"""What must be true at any time, and not only at the end?"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

from linear_retry.scope import Partition, Scope
from linear_retry.testing import Place
from tests.consumer.group import GROUP, LETTERS, FakeGroup
from tests.fake.topic import Record


class AnyTime:
    """Writes into the group's log what can be looked up only now, to be judged at the end."""

    def __init__(self, group: FakeGroup, *, transactional: bool) -> None:
        self._group = group
        self._transactional = transactional
        self._committed: dict[Partition, int] = {}
        self._letters = 0

    def look(self) -> None:
        """What is new since the last look."""
        committed = self._group.fake.group(GROUP)
        if committed != self._committed:
            self._committed = dict(committed)
            self._group.witness.committed(committed)
        partitions = self._group.partitions
        most = len(partitions) + len({Scope.of(self._group.scope, each) for each in partitions})
        for member in self._group.members:
            # A circuit for each scope: one may have gone, and wait for `retry_at`.
            if member.state_size() > most:
                self._group.witness.kept(member.name, member.state_size(), most)

    def violations(self) -> Iterator[str]:
        """What no log shows."""
        if self._transactional:
            yield from self._letter_and_offset_are_one()

    def _letter_and_offset_are_one(self) -> Iterator[str]:
        """Each message has one letter at most, and then the group has its offset."""
        records = [
            record for log in self._group.fake.topics[LETTERS].partitions for record in log.records
        ]
        if len(records) == self._letters:
            return
        self._letters = len(records)
        committed = self._group.fake.group(GROUP)
        ids: Counter[bytes | None] = Counter()
        for record in records:
            ids[dict(record.headers or ())["retry-id"]] += 1
            topic, number, offset = _origin(record)
            if committed.get((topic, number), 0) <= offset:
                place = f"{topic}[{number}]@{offset}"
                yield f"LetterAndOffset: the letter of {place} is there, and its offset is not"
        yield from (
            f"OneLetter: {name!r} has {count} letters" for name, count in ids.items() if count > 1
        )


def _origin(record: Record) -> Place:
    headers = {name: (content or b"").decode() for name, content in record.headers or ()}
    return (
        headers["retry-destination"],
        int(headers["retry-original-partition"]),
        int(headers["retry-original-offset"]),
    )
