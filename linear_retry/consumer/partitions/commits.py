"""Commits what is done, one commit at a time for each partition."""

from collections.abc import Callable, Iterable

from linear_retry.consumer.partitions.offsets import Offsets
from linear_retry.events import CommitFailed, Event
from linear_retry.kafka import KafkaException
from linear_retry.kafka.consumer.client import Client
from linear_retry.retry.clock import NowS
from linear_retry.scope import Partition

COMMIT_EVERY_S = 1.0
UNANSWERED_FOR_S = 60.0
"""librdkafka answers earlier than that, as a rule: an answer is taken for lost then."""


class OffsetCommits:
    """Sends off what is done, one commit at a time for each partition.

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
        """Send off what is done, but for partitions of which a commit is under way."""
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
        """Commit where the group begins, and wait for it. Raises `KafkaException`."""
        self._client.commit_now({partition: offset})
        self._offsets.note_first_commit(partition)
        self._offsets.committed({partition: offset})

    def commit_revoked(self, partitions: Iterable[Partition]) -> None:
        """Commit what is done of these, and wait for it.

        A zombie is told of a revoke too, where it should be told of a loss (librdkafka #5604): any
        answer is tolerated.
        """
        done = self._offsets.uncommitted(partitions)
        if done:
            try:
                self._client.commit_now(done)
            except KafkaException as error:
                self._emit(CommitFailed(str(error), tuple(done)))
