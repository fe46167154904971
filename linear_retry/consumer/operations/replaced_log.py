"""Notices that a partition's log is another than was read: cut, or that of a new topic."""

import math
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Future
from dataclasses import dataclass, field
from typing import TypeVar

from linear_retry.consumer.partitions.assignment import Assignment
from linear_retry.consumer.partitions.offset_reset import OffsetReset
from linear_retry.consumer.partitions.offsets import Offsets
from linear_retry.events import DataLost, Event
from linear_retry.kafka import KafkaException
from linear_retry.kafka.consumer.client import END, Client
from linear_retry.kafka.topics.admin import Admin
from linear_retry.scope import Partition

_K = TypeVar("_K")
_T = TypeVar("_T")

CHECK_EVERY_S = 10.0
_CONFIRM_AFTER_S = 2.0
_LOOK_FOR_ANSWERS_S = 0.5
_COMMITTED_WITHIN_S = 30.0


@dataclass(frozen=True, slots=True)
class _Known:
    """A topic's id, and the epochs of its partitions when it was last seen."""

    id: str
    epochs: Mapping[Partition, int] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class _Question:
    """`expected` is where the log of each partition must reach; `starts` is of changed topics."""

    epochs: Mapping[Partition, int]
    expected: Mapping[Partition, int]
    ends: Mapping[Partition, Future[int]]
    ids: Mapping[str, Future[str]]
    starts: Mapping[Partition, Future[int]]

    def is_answered(self) -> bool:
        offsets = [*self.ends.values(), *self.starts.values()]
        return all(each.done() for each in offsets) and all(one.done() for one in self.ids.values())


class ReplacedLogWatchdog:
    """The watchdog for logs that are not the ones that were read. librdkafka 2.16 reports neither:

    - the log of a paused partition was cut: at the resume it would read on at the same offset,
      whatever is there by then;
    - a topic was deleted and created again while leader epochs are above 0, as on any cluster that
      ever failed over: it reads nothing more, and only a new client does.

    An end below what was read, and another topic id, show them. Brokers are asked every few
    seconds, never waited for; what they say counts if it is the same at a second look, as a broker
    that was cut off from the others may know less. `short` has the partitions that end too early.
    """

    def __init__(
        self,
        client: Client,
        assignment: Assignment,
        offsets: Offsets,
        admin: Admin,
        reset: OffsetReset,
        replace: Callable[[str], None],
        emit: Callable[[Event], None],
    ) -> None:
        """`replace` creates a new client, for a reason."""
        self._client = client
        self._assignment = assignment
        self._offsets = offsets
        self._admin = admin
        self._reset = reset
        self._replace = replace
        self._emit = emit
        self._next_at_s = 0.0
        self._epoch = -1
        self.short: Mapping[Partition, int] = {}
        self._known: dict[str, _Known] = {}
        self._changed: dict[str, str] = {}
        self._asked: _Question | None = None
        self._waits_until_s = math.inf

    @property
    def due_at_s(self) -> float:
        """At once after each assignment: the id of a topic is that of the one that is read."""
        is_new = self._asked is None and self._assignment.epoch != self._epoch
        return -math.inf if is_new else self._next_at_s

    def tick(self) -> None:
        """Asks, or looks for the answers. Raises `DataLossError` where no loss is accepted."""
        now_s, asked = self._assignment.now_s(), self._asked
        if asked is None:
            self._epoch = self._assignment.epoch
            is_known = all(topic in self._known for topic, _ in self._assignment.epochs)
            if is_known and now_s < self._next_at_s:
                return
            self._asked = self._ask()
            self._waits_until_s = now_s + _COMMITTED_WITHIN_S
            self._next_at_s = now_s + (
                CHECK_EVERY_S if self._asked is None else _LOOK_FOR_ANSWERS_S
            )
        elif not asked.is_answered() or (now_s < self._waits_until_s and self._must_wait()):
            self._next_at_s = now_s + _LOOK_FOR_ANSWERS_S
        else:
            self._asked = None
            self._compare_ids(asked)
            self._compare_ends(asked)
            in_doubt = self._changed or self.short
            self._next_at_s = now_s + (_CONFIRM_AFTER_S if in_doubt else CHECK_EVERY_S)

    def _must_wait(self) -> bool:
        """Whether a commit is under way: retried, it would undo that of a new topic's start."""
        owned = self._assignment.epochs
        return bool(self._changed) and any(map(self._client.awaits_commit, owned))

    def _ask(self) -> _Question | None:
        epochs, arrived = dict(self._assignment.epochs), self._assignment.arrived
        if not epochs:
            return None
        expected = {
            key: max(offset, arrived.get(key, -1) + 1)
            for key in epochs
            if (offset := self._offsets.next_offset(key)) is not None
        }
        changed = [key for key in epochs if key[0] in self._changed]
        admin, topics = self._admin, sorted({topic for topic, _ in epochs})
        try:
            return _Question(
                epochs,
                expected,
                admin.ask_ends([*expected], committed=False) if expected else {},
                admin.ask_ids(topics),
                self._ask_starts(changed) if changed else {},
            )
        except KafkaException:
            return None  # the client could not even ask: it is asked again

    def _ask_starts(self, partitions: Sequence[Partition]) -> Mapping[Partition, Future[int]]:
        ask = self._admin.ask_ends if self._reset.begins_at_end else self._admin.ask_beginnings
        return ask(partitions)

    def _compare_ends(self, asked: _Question) -> None:
        before, owned = self.short, self._assignment.epochs
        self.short = {
            key: asked.expected[key]
            for key, end in _answers(asked.ends).items()
            if end < asked.expected[key] and owned.get(key) == asked.epochs[key]
        }
        for partition, expected in self.short.items():
            if partition in before and partition not in self._reset.cut:
                # Only if the leader from which it is read says so too.
                end = self._client.ask_offset(partition, END)
                if end is not None and end < expected:
                    self._reset.note_cut(partition)

    def _compare_ids(self, asked: _Question) -> None:
        before, self._changed = self._changed, {}
        self._known = {topic: known for topic, known in self._known.items() if topic in asked.ids}
        for topic, found in _answers(asked.ids).items():
            known = self._known.get(topic)
            # No id at all, of a broker that is older, tells nothing.
            if known is None or found in ("", known.id) or not known.id:
                self._note(topic, found or (known.id if known else ""), asked)
            else:
                self._changed[topic] = found
        # All together: the new client begins each at its committed offset.
        if self._changed and self._changed.items() <= before.items() and self._have_begun(asked):
            for topic, found in self._changed.items():
                self._note(topic, found, asked)
            self._changed = {}

    def _note(self, topic: str, found: str, asked: _Question) -> None:
        epochs = {key: epoch for key, epoch in asked.epochs.items() if key[0] == topic}
        self._known[topic] = _Known(found, epochs)

    def _have_begun(self, asked: _Question) -> bool:
        """Begins the new topics; False: it could not be done yet, and is tried again."""
        ours = [key for key in self._assignment.epochs if key[0] in self._changed]
        if any(key not in asked.starts for key in ours):
            return False
        # Of a partition without a leader only this is known, that its new log began at 0: the
        # others would wait for it in silence.
        starts = dict.fromkeys(ours, 0) | _answers(asked.starts)
        try:
            earlier = [key for key in ours if self._is_earlier(key, starts[key])]
            if not earlier and not any(map(self._assignment.is_silent, ours)):
                return True
            losses = [
                DataLost(*key, offset=self._offsets.next_offset(key) or 0, next_offset=starts[key])
                for key in earlier
            ]
            for each in losses:
                self._reset.check_accepted((each.topic, each.partition), each.offset)
            self._commit({key: starts[key] for key in earlier})
        except KafkaException:
            return False
        for each in losses:
            self._emit(each)
        topics = ", ".join(sorted(self._changed))
        self._replace(f"deleted and created again, which it would not read: {topics}")
        return True

    def _is_earlier(self, partition: Partition, start: int) -> bool:
        """Whether what is read, or would be, follows an offset of the earlier topic.

        What was assigned since the topic was last seen reads the new one. But its committed offset
        may be of the earlier one: its owner before has committed without knowing.
        """
        epoch = self._assignment.epochs[partition]
        if self._known[partition[0]].epochs.get(partition) == epoch:
            return True
        began = self._offsets.began(partition)
        return (self._client.committed(partition) or 0 if began is None else began) > start

    def _commit(self, starts: Mapping[Partition, int]) -> None:
        """Commits where the new topics begin: what is committed there is of the old ones."""
        others = [key for key in self._assignment.epochs if key not in starts]
        offsets = {**self._offsets.uncommitted(others), **starts}
        if offsets:
            self._client.commit_now(offsets)


def _answers(answers: Mapping[_K, Future[_T]]) -> dict[_K, _T]:
    """The answers, without those that are errors."""
    return {key: each.result() for key, each in answers.items() if each.exception() is None}
