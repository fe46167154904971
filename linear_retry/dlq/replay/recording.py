"""Records resolutions of letters, as the only process that can."""

import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import replace
from itertools import islice
from typing import TypeAlias

from linear_retry.dlq.letters.letter import Filter, State
from linear_retry.dlq.reading import reading
from linear_retry.dlq.reading.reading import Cluster
from linear_retry.dlq.reading.resolutions import Resolution, Resolutions, encoded
from linear_retry.dlq.replay.checks import Facts, check_resolutions, facts_of
from linear_retry.errors import BrokerError, FencedError, UnknownTopicError
from linear_retry.kafka.producers.batch_transactions import BatchTransactions, batch_config
from linear_retry.kafka.topics.reader import Progress
from linear_retry.records.dead_letter import resolutions_topic
from linear_retry.records.record import OutgoingRecord
from linear_retry.records.topics.setup import resolutions_needed

Recorded: TypeAlias = Callable[[int], object]
"""Is called with the number of resolutions that are recorded, after each transaction."""

_ANSWER_S = 60.0
_VISIBLE_S = 3.0
_LOOK_AGAIN_S = 0.02
_BATCH = 5_000


def transactional_id(dead_letter_topic: str) -> str:
    """The transactional id for a dead-letter topic: only its owner can record."""
    return f"linear-retry.dlq.{dead_letter_topic}"


class Recorder:
    """Records the resolutions of a topic's letters.

    After `fence_others` it is the only one: all earlier ones are fenced, and what they committed is
    visible. So decisions based on recorded resolutions must read them *after* that, never before.
    """

    def __init__(
        self,
        topic: str,
        cluster: Cluster,
        facts: Facts | None = None,
    ) -> None:
        """`facts` describe all topics written to, the dead letters' and the resolutions'.

        Raises `RefusedError` if the latter cannot exist.
        """
        self._topic, self._resolutions = topic, resolutions_topic(topic)
        self._cluster = cluster
        self._facts = facts_of(cluster, topic) if facts is None else facts
        limits = [fact.max_message_bytes for fact in self._facts.values() if fact is not None]
        smallest = min((limit for limit in limits if limit is not None), default=None)
        self._transactions = BatchTransactions(
            batch_config(cluster.config, transactional_id(topic), smallest), cluster.producer
        )

    def fence_others(self) -> None:
        """Becomes the only recorder. Raises `BrokerError`, and `RefusedError` before any change."""
        letters = self._facts[self._topic]
        if letters is None:
            raise UnknownTopicError(f"topic {self._topic!r} does not exist; check its name")
        check_resolutions(self._topic, self._facts)
        if self._facts[self._resolutions] is None:
            self._cluster.topics.create(
                resolutions_needed(self._topic, letters.partitions, letters.replication)
            )
        with self._named_where_fenced():
            self._transactions.initialise(_ANSWER_S)

    def resolution(self, key: str, value: bytes | None) -> OutgoingRecord:
        """Returns the record for the letter with this `resolution_key`. None reopens it."""
        return OutgoingRecord(self._resolutions, key.encode("utf-8", "replace"), value)

    def commit(self, records: Sequence[OutgoingRecord]) -> None:
        """Commits all of them, or none. Raises `FencedError`, `BrokerError`."""
        try:
            with self._named_where_fenced():
                self._transactions.commit(records, _ANSWER_S)
        except BrokerError as error:
            raise BrokerError(
                f"{self._topic}: {error}; nothing is half-done: run this again to continue"
            ) from error

    def record(self, keys: Iterable[str], resolution: Resolution | None) -> None:
        """Records the same resolution for all keys, in one transaction."""
        value = None if resolution is None else encoded(resolution)
        self.commit([self.resolution(key, value) for key in keys])

    def wait_until_visible(self) -> None:
        """Waits until everything committed is visible, but at most a few seconds.

        A commit is answered once it is certain, but visible only after each partition has its
        marker. Brokers that go away meanwhile do not undo it: to raise their error would say that
        nothing was done.
        """
        with suppress(BrokerError):
            self._wait_until_visible()

    def _wait_until_visible(self) -> None:
        counts = {name: fact.partitions for name, fact in self._facts.items() if fact is not None}
        # It has that many if we created it.
        counts.setdefault(self._resolutions, counts.pop(self._topic))
        left = [(name, number) for name, count in counts.items() for number in range(count)]
        topics = self._cluster.topics  # a new client: an older one misses new topics
        ends = topics.ends(left, committed=False)
        until_s = time.monotonic() + _VISIBLE_S
        while True:
            seen = topics.ends(left, committed=True)
            left = [each for each in left if seen[each] < ends[each]]
            # Do not wait for another's transaction, which may stay open for long.
            if not left or time.monotonic() > until_s:
                return
            time.sleep(_LOOK_AGAIN_S)

    @contextmanager
    def _named_where_fenced(self) -> Iterator[None]:
        try:
            yield
        except FencedError as error:
            raise FencedError(
                f"{self._topic}: a newer replay, resolve, reopen or purge has taken over (or this "
                "one was suspended for too long), so this one has ended; nothing is half-done: run "
                "this again after the other to continue"
            ) from error


@contextmanager
def recording(
    cluster: Cluster, topic: str, facts: Facts | None = None
) -> Iterator[tuple[Recorder, Resolutions]]:
    """Yields the only recorder, and what is recorded; at the end all of it is visible.

    `facts` describe all topics written to, if there are others than the dead letters' own.
    """
    recorder = Recorder(topic, cluster, facts)
    recorder.fence_others()
    # Read after all others are fenced: nobody can change these meanwhile.
    with Resolutions() as resolutions:
        reading.read_resolutions(cluster.reader, topic, resolutions)
        yield recorder, resolutions
    recorder.wait_until_visible()


def resolve(
    cluster: Cluster,
    topic: str,
    selected: Filter,
    resolution: Resolution,
    progress: Progress | None,
    recorded: Recorded | None = None,
) -> int:
    """Records `resolution` of the selected open letters; returns their number."""
    only_open = replace(selected, states=(State.OPEN,))
    return _record(cluster, topic, only_open, resolution, progress, recorded)


def reopen(
    cluster: Cluster,
    topic: str,
    selected: Filter,
    progress: Progress | None,
    recorded: Recorded | None = None,
) -> int:
    """Reopens the selected replayed or resolved letters; returns their number."""
    states = tuple(state for state in selected.states or tuple(State) if state.is_done)
    dealt_with = replace(selected, states=states) if states else replace(selected, limit=0)
    return _record(cluster, topic, dealt_with, None, progress, recorded)


def _record(
    cluster: Cluster,
    topic: str,
    selected: Filter,
    resolution: Resolution | None,
    progress: Progress | None,
    recorded: Recorded | None = None,
) -> int:
    count = 0
    with recording(cluster, topic) as (recorder, resolutions):
        found = reading.letters(cluster.reader, topic, resolutions, selected, progress)
        keys = ((letter.resolution_key, letter.earlier_key) for letter, _ in found)
        while batch := dict(islice(keys, _BATCH)):  # a letter written twice counts once
            # Else the earlier record would apply again to what is reopened.
            earlier = (key for key in batch.values() if key is not None and resolution is None)
            recorder.record([*batch, *earlier], resolution)
            count += len(batch)
            if recorded is not None:
                recorded(count)
    return count
