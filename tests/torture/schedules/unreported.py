"""Letters that are there though nobody is left to say so."""

from collections.abc import Callable, Mapping
from datetime import UTC, datetime

from linear_retry.events import (
    DeadLettered,
    HandedOver,
    Lost,
    Revoked,
    SentToRetry,
    Skipped,
    Stopped,
)
from linear_retry.records.dead_letter import DeadLetter, parse
from linear_retry.scope import Partition
from linear_retry.testing import AttemptFinished, EventEmitted, EventLog, Place
from tests.fake.topic import PartitionLog, Record


class UnreportedLetters:
    """Letters of members that were killed, interrupted, or revoked between letter and event.

    They are written into the log as if reported: what is in the dead-letter topic, or in a retry
    topic, is done.
    """

    def __init__(
        self,
        log: EventLog,
        logs: Mapping[str, list[PartitionLog]],
        reads: str | None,
        says_no_more: Callable[[str, Place], bool],
    ) -> None:
        """`logs` are those of each topic for letters; whoever sent it, of which message.

        `reads` is the retry topic that all of them come from, at the offsets that they had first.
        """
        self._reads = reads
        self._log = log
        self._logs = logs
        self._says_no_more = says_no_more
        self._seen = 0
        self._read: dict[int, tuple[Record, DeadLetter]] = {}
        self._entries = 0
        self._reported: set[Place] = set()
        self._failed: dict[Place, str] = {}
        self._stopped: set[str] = set()
        self._unreported: list[tuple[str, DeadLetter]] = []
        self.open: set[Partition] = set()
        """Of these a letter is there, and whoever sent it may find out and say so."""

    def report(self) -> None:
        """Before anybody goes on: what is done must be known by then."""
        count = 0
        for logs in self._logs.values():
            for log in logs:  # before each attempt: a generator would take as long again
                count += len(log.records)
        if count == self._seen and not self._unreported:
            return
        self._seen = count
        self.open.clear()
        self._receive()
        self._unreported = [
            one for one in self._sent() if self.origin(one[1]) not in self._reported
        ]
        last = {self.origin(letter): (topic, letter) for topic, letter in self._unreported}
        for place, (topic, letter) in last.items():
            sender = self._failed.get(place, "")
            if not self._says_no_more(sender, place):
                self.open.add(place[:2])
            else:
                self._log.listener(sender)(self._event(topic, letter, sender))

    def letters(self) -> list[DeadLetter]:
        """All that a reader finds."""
        return [letter for _, letter in self._sent()]

    def origin(self, letter: DeadLetter) -> Place:
        """Of which message."""
        topic = self._reads or letter.destination
        return Place(topic, letter.original_partition, letter.original_offset)

    def _sent(self) -> list[tuple[str, DeadLetter]]:
        """Each read once, with its topic."""
        records = [
            (topic, record)
            for topic, logs in self._logs.items()
            for log in logs
            for record in log.records
        ]
        for _, record in records:
            if id(record) not in self._read:  # kept with its letter: so no other has this id
                letter = parse(record.headers or [], record.key, record.value)
                self._read[id(record)] = record, letter
        return [(topic, self._read[id(record)][1]) for topic, record in records]

    def _receive(self) -> None:
        for entry in self._log.entries[self._entries :]:
            match entry:
                case AttemptFinished(_, member, place, "failed"):
                    self._failed[place] = member
                case AttemptFinished(_, _, place, "done"):
                    self._reported.add(place)
                case EventEmitted(_, member, Stopped() | Revoked() | Lost()):
                    self._stopped.add(member)
                case EventEmitted(
                    event=DeadLettered() | SentToRetry() | HandedOver() | Skipped() as event
                ):
                    self._reported.add(event.place)
        self._entries = len(self._log.entries)

    def _event(
        self, topic: str, letter: DeadLetter, sender: str
    ) -> DeadLettered | SentToRetry | Skipped:
        if sender in self._stopped:
            # It landed so late that its sender has forgotten the failures: it is done, no more.
            return Skipped(*self.origin(letter), letter.retry_id, "")
        if letter.send_to == "retry":
            return SentToRetry(
                *self.origin(letter),
                retry_topic=topic,
                retry_id=letter.retry_id,
                generation=letter.generation,
                step=letter.step or 0,
                retry_at=datetime.fromtimestamp((letter.retry_at_ms or 0) / 1000, UTC),
                error="",
                failures=letter.failures,
            )
        return DeadLettered(
            *self.origin(letter),
            dead_letter_topic=topic,
            retry_id=letter.retry_id,
            generation=letter.generation,
            reason=letter.reason,
            error="",
            failures=letter.failures,
            escaped_headers=letter.escaped_headers,
        )
