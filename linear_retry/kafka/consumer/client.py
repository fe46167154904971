"""The consumer's Kafka client."""

import math
from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from typing import Any, TypeAlias

from confluent_kafka import (
    OFFSET_BEGINNING,
    OFFSET_END,
    OFFSET_STORED,
    Consumer,
    KafkaError,
    KafkaException,
    Message,
    TopicPartition,
)

from linear_retry.kafka.consumer.callbacks import CallbackGuard, ConsumerListener
from linear_retry.kafka.consumer.leader_epochs import LeaderEpochs
from linear_retry.kafka.consumer.membership import GroupMembership
from linear_retry.kafka.consumer.settings import ConsumerSettings
from linear_retry.kafka.quiet import close_in_thread, make_client
from linear_retry.scope import Partition

SHORTEST_POLL_S = 0.001
LONGEST_POLL_S = 1.0
_LEAVE_WITHIN_S = 1.0
_NO_EPOCH = -1

NoteOf: TypeAlias = Callable[[Partition, int], str | None]
"""The note to commit beside this offset of a partition; empty for none, None if not known yet."""

BEGINNING = OFFSET_BEGINNING
END = OFFSET_END


class Client:
    """One confluent_kafka `Consumer`, called by its owner thread only.

    Every callback is guarded (`CallbackGuard`): its exception is raised at the end of `poll` or
    `consume`; the caller must then seek every partition to its own next offset.
    """

    def __init__(
        self,
        settings: ConsumerSettings,
        consumer: Callable[..., Any] = Consumer,
        *,
        transactional: bool = False,
    ) -> None:
        """Creates the client. Raises `ConfigurationError` if librdkafka refuses a key.

        `transactional`: keep the group metadata of each assignment (`member.metadata`).
        """
        self.group_id = settings.group_id
        self.restarts_all = not settings.incremental
        self.reconnect_within_s = settings.reconnect_within_s
        self._listener: ConsumerListener
        self._settings = settings
        self._make = consumer
        self._transactional = transactional
        self._topics: list[str] = []
        self.note_of: NoteOf = no_note
        self.leader_epochs = LeaderEpochs()
        self.callbacks = CallbackGuard()
        self._consumer = self._made()

    def set_listener(self, listener: ConsumerListener) -> None:
        """Sets the listener; must be called before the first `poll`."""
        self._listener = listener

    def _made(self) -> Any:
        """Returns a new handle, after disarming the callbacks of an earlier one."""
        self.callbacks.disarm()
        self.callbacks.clear()
        self._unanswered: Counter[Partition] = Counter()
        user = self._settings.callbacks
        ours = {key: user[key] for key in ("stats_cb", "throttle_cb") if key in user}
        ours |= {"on_commit": self._on_commit, "error_cb": self._on_error}
        guarded = {key: self.callbacks.guarded(callback) for key, callback in ours.items()}
        made = make_client(self._make, dict(self._settings.config) | guarded)
        is_kip_848 = self._settings.config.get("group.protocol") == "consumer"
        self.member = GroupMembership(made, is_kip_848=is_kip_848)
        return made

    def poll(self, timeout_s: float) -> Message | None:
        """Returns at most one message or error; callbacks run inside. Waits from 1 ms up to 1 s."""
        # Rounded up to whole milliseconds: librdkafka truncates, so 0.0005 would spin.
        bounded_s = min(max(timeout_s, SHORTEST_POLL_S), LONGEST_POLL_S)
        message: Message | None = self._consumer.poll(math.ceil(bounded_s * 1000) / 1000)
        if message is None and self.member.is_kip_848:
            self.member.note_idle_poll()
        if self.callbacks.kept:
            self.callbacks.raise_kept()
        return message

    def drain(self, timeout_s: float) -> None:
        """Runs callbacks at the end, and drops messages and exceptions."""
        self._consumer.poll(timeout_s)
        self.callbacks.clear()

    def consume(self, count: int) -> list[Message]:
        """Returns what is queued, at most `count`; callbacks run inside. Never waits."""
        messages: list[Message] = self._consumer.consume(count, 0)
        if self.callbacks.kept:
            self.callbacks.raise_kept()
        return messages

    def pause(self, partitions: Iterable[Partition]) -> None:
        self._consumer.pause([TopicPartition(*key) for key in partitions])

    def resume(self, partitions: Iterable[Partition]) -> None:
        self._consumer.resume([TopicPartition(*key) for key in partitions])

    def seek(self, partition: Partition, offset: int, leader_epoch: int = _NO_EPOCH) -> None:
        """Seeks. Raises `KafkaException` if the partition is not, or no longer, assigned.

        With a leader epoch librdkafka asks where that leader's part of the log ends. If that is
        before `offset`, the log was cut, and it reports an error in place of a message.
        """
        self._consumer.seek(TopicPartition(*partition, offset, leader_epoch=leader_epoch))

    def reassign(self, partition: Partition, starts: Mapping[Partition, int | None]) -> None:
        """Restarts `partition` at its offset in `starts` (None: the committed one).

        Only this revives a partition that librdkafka has stalled (librdkafka #5591); `resume` and
        `seek` do not. `starts` has every assigned partition: an eager assignment is replaced as a
        whole, and all of it restarts (`restarts_all`).
        """
        if not self.restarts_all:
            self._consumer.incremental_unassign([TopicPartition(*partition)])
            starts = {partition: starts[partition]}
        items = [
            TopicPartition(*key, OFFSET_STORED if offset is None else offset)
            for key, offset in starts.items()
        ]
        self._assign(items)

    def assignment(self) -> set[Partition]:
        """What librdkafka takes to be ours. Trust it last: a zombie's looks healthy, too."""
        return {_key(item) for item in self._consumer.assignment()}

    def ask_offset(self, partition: Partition, at: int) -> int | None:
        """Returns the first offset (`BEGINNING`), or the one after the last (`END`)."""
        return ask_offset(self._consumer, partition, at)

    def commit(self, offsets: Mapping[Partition, int]) -> None:
        """Commits asynchronously; a poll calls the listener's `committed` or `commit_failed`."""
        self._consumer.commit(offsets=self._with_notes(offsets), asynchronous=True)
        self._unanswered.update(offsets.keys())

    def to_commit(self, partition: Partition, offset: int, note: str) -> TopicPartition:
        """Returns what is committed: an offset with its note, and its leader epoch."""
        leader_epoch = self.leader_epochs.at(partition, offset)
        return TopicPartition(
            *partition,
            offset,
            metadata=note,
            leader_epoch=_NO_EPOCH if leader_epoch is None else leader_epoch,
        )

    def awaits_commit(self, partition: Partition) -> bool:
        """Whether a commit of this partition is in flight."""
        return self._unanswered[partition] > 0

    def commit_now(self, offsets: Mapping[Partition, int]) -> None:
        """Commits and waits for the answer, for as long as librdkafka does (45 s without brokers).

        Raises `KafkaException`. With shorter notes, down to none, if a broker finds one too long:
        it refuses the offset with it.
        """
        while True:
            items = self._with_notes(offsets)
            try:
                self._commit_now(items)
            except KafkaException as error:
                longest = max(items, key=_characters)
                if error.args[0].code() != KafkaError.OFFSET_METADATA_TOO_LARGE or (
                    not _characters(longest)
                ):
                    raise
                self._listener.note_refused(_key(longest), _characters(longest))
            else:
                return

    def _commit_now(self, items: list[TopicPartition]) -> None:
        for answer in self._consumer.commit(offsets=items, asynchronous=False) or []:
            if answer.error is not None:
                raise KafkaException(answer.error)

    def committed(self, partition: Partition) -> int | None:
        """Returns the group's committed offset, or None. Waits 1 s at most.

        Waits for open transactions that may commit it. Raises `KafkaException`.
        """
        (answer,) = self._consumer.committed([TopicPartition(*partition)], timeout=1.0)
        if answer.error is not None:
            raise KafkaException(answer.error)
        return answer.offset if answer.offset >= 0 else None

    def notes(
        self, partitions: Iterable[Partition]
    ) -> dict[Partition, tuple[int, str, int | None] | KafkaError]:
        """Returns each committed offset, the note beside it, empty for none, and its leader epoch.

        Waits 1 s at most. Raises `KafkaException`.
        """
        answers = self._consumer.committed(
            [TopicPartition(*key) for key in partitions], timeout=1.0
        )
        return {
            _key(item): item.error or (item.offset, item.metadata or "", item.leader_epoch)
            for item in answers
        }

    def subscribe(self, topics: list[str]) -> None:
        self._topics = topics
        self._consumer.subscribe(
            topics,
            on_assign=self.callbacks.guarded(self._on_assign),
            on_revoke=self.callbacks.guarded(self._on_revoke),
            on_lost=self.callbacks.guarded(self._on_lost),
        )

    def partition_counts(self, timeout_s: float) -> dict[str, int]:
        """Returns the number of partitions of each topic; creates none (the admin client would).

        Raises `KafkaException` if no broker answers within `timeout_s`.
        """
        known = self._consumer.list_topics(timeout=timeout_s)
        return {
            name: len(metadata.partitions)
            for name, metadata in known.topics.items()
            if metadata.error is None
        }

    def sees_brokers(self, topic: str | None) -> bool:
        """Whether librdkafka has a broker that it can ask, about `topic` (None: all topics).

        Waits only 1 ms: without any broker the error differs from that of a late answer.
        """
        try:
            self._consumer.list_topics(topic, timeout=0.001)
        except KafkaException as error:
            return bool(error.args[0].code() != KafkaError._TRANSPORT)
        return True

    def renew(self) -> None:
        """Replaces the handle by a new one, which joins as a new member without an assignment.

        The old one is closed first, in its own thread, as `close` may never return.
        """
        old, self._consumer = self._consumer, self._made()
        close_in_thread(old, "renew", _LEAVE_WITHIN_S)
        self.subscribe(self._topics)

    def disarm(self) -> None:
        """Disables our callbacks, which `close` would call on its own thread."""
        self.callbacks.disarm()

    def close(self, join_within_s: float) -> None:
        """Leaves the group. May hang for minutes if the member was fenced: call it in a thread.

        A member that librdkafka closes only after it has joined may take `join_within_s` for that.
        """
        settings = self._settings
        try:
            if settings.incremental and not (self.member.is_kip_848 or settings.static_member):
                self.member.leave_without_partitions(join_within_s)
        finally:
            self._consumer.close()

    def _on_assign(self, _: object, partitions: list[TopicPartition]) -> None:
        # Assign first: a pause before it is silently ignored (60,000 messages got through).
        # Without offsets: asking for committed ones here timed out under an open transaction.
        try:
            self._assign(partitions)
        finally:
            # Also after a signal handler has raised inside: confluent_kafka assigns what its
            # callback has not, and we would drop everything from partitions unknown to us.
            self.member.was_member = True
            self._listener.assigned([_key(item) for item in partitions])
        if self._transactional:
            # Here, not right before use: the metadata of a live member would be accepted even for a
            # partition that is another member's by then.
            self.member.capture()

    def _on_revoke(self, _: object, partitions: list[TopicPartition]) -> None:
        self._listener.revoked([_key(item) for item in partitions])
        self._unassign(partitions)

    def _on_lost(self, _: object, partitions: list[TopicPartition]) -> None:
        self.member.metadata = None
        self.member.note_lost()
        self._listener.lost([_key(item) for item in partitions])
        self._unassign(partitions)

    def _assign(self, items: list[TopicPartition]) -> None:
        (self._consumer.assign if self.restarts_all else self._consumer.incremental_assign)(items)

    def _unassign(self, partitions: list[TopicPartition]) -> None:
        if self.restarts_all:
            self._consumer.unassign()
        else:
            self._consumer.incremental_unassign(partitions)
        for item in partitions:
            self.leader_epochs.forget(_key(item))

    def _on_commit(self, error: KafkaError | None, partitions: list[TopicPartition]) -> None:
        self._unanswered -= Counter(_key(item) for item in partitions)
        refused: dict[int, tuple[KafkaError, list[TopicPartition]]] = {}
        for item in partitions:
            problem = item.error or error
            if problem is not None:
                refused.setdefault(problem.code(), (problem, []))[1].append(item)
        self._listener.committed(
            {
                _key(item): (item.offset, item.metadata or "")
                for item in partitions
                if not (item.error or error)
            }
        )
        for problem, items in refused.values():
            if problem.code() == KafkaError.OFFSET_METADATA_TOO_LARGE:
                # It is still to be committed, and the next commit has a shorter note.
                for item in items:
                    self._listener.note_refused(_key(item), _characters(item))
            else:
                self._listener.commit_failed(problem, tuple(map(_key, items)))
        if "on_commit" in self._settings.callbacks:
            self._settings.callbacks["on_commit"](error, partitions)

    def _with_notes(self, offsets: Mapping[Partition, int]) -> list[TopicPartition]:
        """Every commit passes here: without its note it would clear the one that is there."""
        return [
            self.to_commit(key, offset, self.note_of(key, offset) or "")
            for key, offset in offsets.items()
        ]

    def _on_error(self, error: KafkaError) -> None:
        if "error_cb" in self._settings.callbacks:
            self.callbacks.guarded(self._settings.callbacks["error_cb"])(error)
        self._listener.client_error(error)


def ask_offset(consumer: Any, partition: Partition, at: int) -> int | None:
    """Asks the broker for the first offset (`BEGINNING`) or the one after the last (`END`).

    None: no answer in 1 s. Not by `get_watermark_offsets`: it asks for both, and if only the first
    answer is an error, librdkafka 2.16 may drop the error and report that the partition begins at
    its end (118 of 300 with the leader refusing once; #4233 looks like it). The cached ones are
    stale when retention has just removed something.
    """
    asked = [TopicPartition(*partition, at)]
    try:
        (answer,) = consumer.offsets_for_times(asked, timeout=1.0)
    except KafkaException:
        return None
    return answer.offset if answer.error is None and answer.offset >= 0 else None


def _key(item: TopicPartition) -> Partition:
    return item.topic, item.partition


def _characters(item: TopicPartition) -> int:
    return len(item.metadata or "")


def no_note(partition: Partition, offset: int) -> str:  # noqa: ARG001
    """Returns nothing: the commit of this offset clears what note there is."""
    return ""
