"""Plans a replay: which letters are sent, in which order, and where."""

from __future__ import annotations

import uuid
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from itertools import islice
from typing import NamedTuple

from linear_retry.dlq.letters.letter import NONE, Letter
from linear_retry.dlq.replay.order import Entry, InOrder, Placed
from linear_retry.dlq.replay.outgoing import Fetch, NotReplayableError, Outgoing, outgoing, unpacked
from linear_retry.records.durations import read_delay_ms
from linear_retry.records.lineage import content_digest
from linear_retry.records.topics.names import retry_group
from linear_retry.retry.clock import now_ms

IN_RETRY = "of a retry topic, whose retry line brings it back: a replay would double it"
AMBIGUOUS = (
    "of one id with different keys or values, so that one would count as sent with the other: "
    "forward each by itself, then resolve the id"
)
NO_LETTER = "not a dead letter: it is sent only to a topic named for it (--to)"


class Source(NamedTuple):
    """An origin partition. `topic` and `partition` are None if the letters do not have them.

    `arrived_in` is the partition of the dead-letter topic if, without original offsets, the order
    is that of arrival; else None.
    """

    topic: str | None
    partition: int | None
    arrived_in: int | None = None


@dataclass(slots=True)
class PartitionPlan:
    """The letters of one source: they go to one partition, in order.

    `to_partition` is None if the key decides. `first` and `last` are original offsets, None if the
    order is that of arrival. Times are the messages' own, None if unknown.
    """

    source: Source
    to_topic: str
    to_partition: int | None
    letters: int = 0
    first: int | None = None
    last: int | None = None
    oldest_ms: int | None = None
    newest_ms: int | None = None
    longest: int = 0
    """The length of the longest packed message."""

    groups: set[str] = field(default_factory=set)
    """The consumer groups that handle them; "" if every group does."""

    def add(self, message: Outgoing, packed: int) -> None:
        """Counts one of its letters."""
        self.groups.add(message.group_in(self.to_topic))
        at_ms = message.timestamp_ms
        self.longest = max(self.longest, packed)
        if at_ms >= 0:
            self.oldest_ms = at_ms if self.oldest_ms is None else min(self.oldest_ms, at_ms)
            self.newest_ms = at_ms if self.newest_ms is None else max(self.newest_ms, at_ms)


@dataclass(slots=True)
class Plan:
    """What a replay will send. Use it in a `with`: it contains the letters.

    `not_replayable` counts, by reason, the letters that are not sent and stay open. `earlier_open`
    counts open letters that are not sent although later ones of their keys are: these keys would be
    out of order; 0 for a retry topic, which keeps none. `for_group` is the group that all are
    addressed to, "" for every group; None: each to the group of its letter. `is_to_retry`: the
    topic `to` is a retry topic of that group.
    """

    topic: str
    to: str | None = None
    keep_timestamp: bool = False
    for_group: str | None = None
    is_to_retry: bool = False
    replay_id: str = field(default_factory=lambda: str(uuid.uuid4()))
    partitions: list[PartitionPlan] = field(default_factory=list)
    not_replayable: Counter[str] = field(default_factory=Counter)
    earlier_open: int = 0
    order: InOrder = field(default_factory=InOrder)

    def __enter__(self) -> Plan:
        return self

    def __exit__(self, *_: object) -> None:
        self.order.__exit__()

    @property
    def letters(self) -> int:
        """The number of letters to be sent."""
        return sum(each.letters for each in self.partitions)

    def placed(self) -> Iterator[Placed]:
        """The letters to be sent, each with its key and its place in the order of its source."""
        for entry in self.order:
            source = self.partitions[entry.source].source
            yield Placed(source, unpacked(entry.content).key, entry.offset)

    @property
    def targets(self) -> tuple[str, ...]:
        """The topics that messages are sent to."""
        return tuple(dict.fromkeys(each.to_topic for each in self.partitions))

    @property
    def delay_ms(self) -> int | None:
        """How long messages wait in the retry topic, if its name says so."""
        return read_delay_ms((self.to or "").rpartition(".")[2])

    def reader_of(self, group: str) -> str:
        """The consumer group that reads what is sent for `group`."""
        return retry_group(group) if self.is_to_retry else group


class _Planned(NamedTuple):
    """A message to be sent, and its entry, whose source has no number yet."""

    source: Source
    entry: Entry
    message: Outgoing


class Planner:
    """Fills a plan with letters as they are read."""

    def __init__(self, plan: Plan, fetch: Fetch, to_partitions: int = 1) -> None:
        """`to_partitions` are those of the one topic that all go to, if there is one."""
        self._plan = plan
        self._fetch = fetch
        self._to_partitions = to_partitions
        self._numbers: dict[Source, int] = {}

    def take(
        self,
        letters: Iterable[Letter],
        limit: int | None = None,
        keep: Callable[[Letter], object] = lambda _: None,
    ) -> None:
        """Plans each letter, or records why it cannot be sent; then counts them, each once.

        `keep` is called with those that cannot be sent.
        With a `limit`, only that many, the first written over all sources; but always a prefix of
        each source's order, so that a later replay does not send earlier messages.
        """
        planned = self._planned(letters, keep)
        for each in planned if limit is None else self._oldest(planned, limit):
            self._add(each)
        self._leave_out_ambiguous(self._plan.order)
        for number, count, first, last in self._plan.order.sources():
            partition = self._plan.partitions[number]
            partition.letters = count
            if partition.source.arrived_in is None:
                partition.first, partition.last = first, last

    def _planned(
        self, letters: Iterable[Letter], keep: Callable[[Letter], object]
    ) -> Iterator[_Planned]:
        for letter in letters:
            try:
                yield self._plan_one(letter)
            except NotReplayableError as why:
                self._plan.not_replayable[str(why)] += 1
                keep(letter)

    def _plan_one(self, letter: Letter) -> _Planned:
        plan = self._plan
        if letter.is_retry:
            raise NotReplayableError(IN_RETRY)
        must_be_letter = plan.to is None or plan.is_to_retry
        if must_be_letter and (letter.format == NONE or letter.origin is None):
            raise NotReplayableError(NO_LETTER)
        message = outgoing(letter, plan.replay_id, self._fetch, plan.for_group)
        if plan.is_to_retry:
            message = message.to_retry(plan.delay_ms, now_ms())
        source, place = _source(letter)
        content = message.packed(letter.partition, letter.offset)
        name, written_ms = letter.resolution_key, letter.timestamp_ms
        digest = content_digest(message.key, message.value)
        entry = Entry(0, place, letter.generation, name, content, written_ms, digest)
        return _Planned(source, entry, message)

    def _oldest(self, planned: Iterable[_Planned], limit: int) -> Iterator[_Planned]:
        numbers: dict[Source, int] = {}
        with InOrder() as order:
            for source, entry, _ in planned:
                order.add(entry._replace(source=numbers.setdefault(source, len(numbers))))
            self._leave_out_ambiguous(order)
            sources = tuple(numbers)
            for entry in islice(order.oldest_first(len(sources)), limit):
                yield _Planned(sources[entry.source], entry, unpacked(entry.content))

    def _leave_out_ambiguous(self, order: InOrder) -> None:
        count = order.remove_ambiguous()
        if count:
            self._plan.not_replayable[AMBIGUOUS] += count

    def _add(self, planned: _Planned) -> None:
        plan, (source, entry, message) = self._plan, planned
        number = self._numbers.get(source)
        if number is None:
            number = self._numbers[source] = len(plan.partitions)
            plan.partitions.append(self._partition_plan(source))
        plan.partitions[number].add(message, len(entry.content))
        plan.order.add(entry._replace(source=number))

    def _partition_plan(self, source: Source) -> PartitionPlan:
        if self._plan.to is not None:
            # A whole source goes to one partition, or there would be no order. If the topic has as
            # many partitions as the origin, it is the same partition.
            number = source.arrived_in if source.partition is None else source.partition
            return PartitionPlan(source, self._plan.to, (number or 0) % self._to_partitions)
        if source.topic is None:
            raise AssertionError("a letter without an origin is not planned without a target")
        return PartitionPlan(source, source.topic, source.partition)


def placed(letter: Letter) -> Placed:
    """Returns the letter's key, and its place in the order of its source."""
    source, place = _source(letter)
    return Placed(source, letter.key, place)


def _source(letter: Letter) -> tuple[Source, int]:
    origin = letter.origin
    if origin is None:
        return Source(None, None, letter.partition), letter.offset
    if origin.partition is None or origin.offset is None:
        return Source(origin.topic, origin.partition, letter.partition), letter.offset
    return Source(origin.topic, origin.partition), origin.offset
