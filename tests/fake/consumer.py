"""The fake `Consumer`, callbacks and refusals included."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from typing import TYPE_CHECKING, Any

from confluent_kafka import (
    OFFSET_BEGINNING,
    OFFSET_END,
    OFFSET_INVALID,
    KafkaError,
    KafkaException,
    Message,
    TopicPartition,
)
from confluent_kafka.admin import ClusterMetadata  # type: ignore[attr-defined]  # exported by import only

from linear_retry.scope import Partition
from tests.fake.commits import Answer, Commits, offsets_of
from tests.fake.fetching import Fetching
from tests.fake.membership import Callback, Membership, refusal
from tests.fake.polling import Polling

if TYPE_CHECKING:
    from tests.fake.cluster import FakeKafka

_FENCED = (
    "Fatal consumer error: Broker: Static consumer fenced by other consumer "
    "with same group.instance.id"
)
_TAKEN = (
    "Fatal error: Broker: The instance ID is still used by another member in the consumer group: "
    "ConsumerGroupHeartbeat fatal error: Broker: The instance ID is still used by another member"
)
_REFUSED = (
    "Fatal error: Broker: Invalid request: ConsumerGroupHeartbeat fatal error: Broker: Invalid "
    "request"
)
_MOST_MESSAGES = 1_000_000


class FakeConsumer:
    """One consumer handle. It never sleeps: where the real one waits, virtual time passes."""

    def __init__(self, fake: FakeKafka, config: Mapping[str, Any], name: str) -> None:
        if "group.id" not in config:
            raise refusal(KafkaError._INVALID_ARG, "Failed to create consumer: group.id required")
        self.name = name
        self.group = str(config["group.id"])
        self.closed = False
        self.blind = False
        self.refused = False
        self._fake = fake
        self._config = dict(config)
        self._fetching = Fetching(
            fake.clock,
            fake.faults,
            fake.log_of,
            lambda item: fake.group(self.group).get(item),
            lambda item: fake.transactions.awaits(self.group, item),
            reset=str(config.get("auto.offset.reset", "latest")),
            tells_eof=str(config.get("enable.partition.eof", False)).lower() == "true",
        )
        self.membership = Membership(self._fetching, incremental=_is_incremental(config))
        max_poll_s = float(config.get("max.poll.interval.ms", 300_000)) / 1000
        self._polling = Polling(fake, self, self._fetching, self.membership, max_poll_s)
        self._commits = Commits(fake, self.group, self.membership, lambda: self.sees_no_broker)

    def poll(self, timeout: float | None = None) -> Message | None:
        self._enter("poll", timeout)
        messages = self._polling.collect(1, timeout)
        return messages[0] if messages else None

    def consume(self, num_messages: int = 1, timeout: float = -1) -> list[Message]:
        self._enter("consume", num_messages, timeout)
        if not 0 <= num_messages <= _MOST_MESSAGES:
            raise ValueError("num_messages must be between 0 and 1000000 (1M)")
        most = min(num_messages, self._fake.faults.few_at_once or num_messages)
        return self._polling.collect(most, timeout) if most else []

    @property
    def sees_no_broker(self) -> bool:
        """They are down, or it is blind."""
        return self.blind or self._fake.faults.brokers_down

    def has(self, partition: Partition) -> bool:
        return partition in self.membership.held

    def fail(self, error: KafkaError) -> None:
        """The next poll returns this error as a message."""
        self._polling.fail(error)

    def report(self, error: KafkaError) -> None:
        """The next poll calls `error_cb`."""
        callback = self._config.get("error_cb")
        if callback is not None:
            self._polling.answers.append(partial(callback, error))

    def fence(self, *, rejoins: bool) -> None:
        """Another member has this one's `group.instance.id`. `.fatal()` is False, as measured.

        `rejoins`: polled on, it is given what it had.
        """
        fatal = self._commits.fatal = KafkaError(KafkaError._FATAL, _FENCED)
        self.report(fatal)
        self.fail(fatal)
        had = self.membership.target
        self._fetching.assigned.clear()
        self.membership.changes.clear()
        self.membership.target = ()
        if rejoins:
            self.membership.retarget(had, 1)

    def refuse(self) -> None:
        """It had to join again and asks as if it were in: refused, which is fatal (KIP-848)."""
        self.refused = True
        self._commits.fatal = KafkaError(KafkaError._FATAL, _REFUSED)
        self.fail(self._commits.fatal)

    def subscribe(
        self,
        topics: list[str],
        on_assign: Callback | None = None,
        on_revoke: Callback | None = None,
        on_lost: Callback | None = None,
    ) -> None:
        self._enter("subscribe", tuple(topics))
        name = str(self._config.get("group.instance.id"))
        if self._fake.names_taken_until_s.get(name, 0.0) > self._fake.clock.now_s():
            self._commits.fatal = KafkaError(KafkaError._FATAL, _TAKEN)
            self.fail(self._commits.fatal)
            return
        self.membership.callbacks = {"assign": on_assign, "revoke": on_revoke, "lost": on_lost}
        self._fake.joined(self, topics)

    def unsubscribe(self) -> None:
        """At once, though librdkafka puts it off while it joins."""
        self._enter("unsubscribe")
        self._polling.guard(partial(self.membership.leave, self))
        self._fake.left(self)

    def memberid(self) -> str | None:
        self._enter("memberid")
        return self._member_id()

    def consumer_group_metadata(self) -> bytes:
        """What names the member and its generation, both as far as the client knows."""
        self._enter("consumer_group_metadata")
        member_id = self._member_id() or ""
        generation = self.membership.generation if member_id else -1
        return f"{self.group}/{member_id}/{generation}".encode()

    def has_id(self, member_id: str) -> bool:
        """Whether the group knows this member by that id."""
        return self._member_id() == member_id and not self.membership.is_lost()

    def close(self) -> None:
        if self.closed:
            return
        self._fake.note(self.name, "close", ())
        faults = self._fake.faults
        if faults.close_hangs is not None:
            faults.close_hangs.wait()
        if faults.close_takes_s:
            self._fake.clock.advance(faults.close_takes_s)
        self._commits.land()
        self._polling.answer()
        self._polling.guard(partial(self.membership.leave, self))
        self._polling.answer()
        self.closed = True
        self._fake.left(self)
        self._polling.raise_what_callbacks_left()

    def assign(self, partitions: list[TopicPartition]) -> None:
        self._enter("assign", _shown(partitions))
        self.membership.assign(partitions)

    def unassign(self) -> None:
        self._enter("unassign")
        self.membership.unassign()

    def incremental_assign(self, partitions: list[TopicPartition]) -> None:
        self._enter("incremental_assign", _shown(partitions))
        self.membership.incremental_assign(partitions)

    def incremental_unassign(self, partitions: list[TopicPartition]) -> None:
        self._enter("incremental_unassign", _shown(partitions))
        self.membership.incremental_unassign(partitions)

    def assignment(self) -> list[TopicPartition]:
        self._enter("assignment")
        return [TopicPartition(*key, fetch.start) for key, fetch in self._fetching.assigned.items()]

    def pause(self, partitions: list[TopicPartition]) -> None:
        self._enter("pause", _shown(partitions))
        if not self._fake.faults.takes_ignored_pause():
            for item in partitions:
                self._fetching.pause((item.topic, item.partition))

    def resume(self, partitions: list[TopicPartition]) -> None:
        self._enter("resume", _shown(partitions))
        for item in partitions:
            self._fetching.resume((item.topic, item.partition))

    def seek(self, partition: TopicPartition) -> None:
        if not isinstance(partition, TopicPartition):
            raise TypeError("expected cimpl.TopicPartition")
        self._enter("seek", _shown([partition]))
        key = partition.topic, partition.partition
        code = self._fetching.refusal(key)
        injected = self._fake.faults.takes_seek_error()
        if injected is not None:
            raise KafkaException(injected)
        if code is not None:
            raise refusal(code, f"Failed to seek to offset {partition.offset}")
        self._fetching.seek(key, partition.offset, partition.leader_epoch)

    def position(self, partitions: list[TopicPartition]) -> list[TopicPartition]:
        self._enter("position", _shown(partitions))
        fetches = self._fetching.assigned
        return [
            TopicPartition(item.topic, item.partition, fetch.position if fetch else OFFSET_INVALID)
            for item in partitions
            for fetch in (fetches.get((item.topic, item.partition)),)
        ]

    def commit(
        self,
        message: Message | None = None,
        offsets: list[TopicPartition] | None = None,
        asynchronous: bool = True,
    ) -> list[TopicPartition] | None:
        if message is not None and offsets is not None:
            raise ValueError("message and offsets are mutually exclusive")
        items = offsets_of(message, offsets)
        self._enter("commit", _shown(items), asynchronous)
        if asynchronous:
            self._commits.later(items, self._commit_answered)
            return None
        error, answers = self._commits.now(items)
        if error is not None:
            raise KafkaException(error)
        return answers

    def committed(
        self, partitions: list[TopicPartition], timeout: float | None = None
    ) -> list[TopicPartition]:
        self._enter("committed", _shown(partitions))
        self._fake.require_brokers(timeout, blind=self.blind)
        keys = [(item.topic, item.partition) for item in partitions]
        if any(self._fake.transactions.awaits(self.group, key) for key in keys):
            self._fake.clock.advance(timeout or 60.0)
            raise refusal(
                KafkaError._TIMED_OUT, "Failed to get committed offsets: Local: Timed out"
            )
        stored, notes = self._fake.group(self.group), self._fake.notes(self.group)
        epochs = self._fake.leader_epochs(self.group)
        return [
            TopicPartition(
                *key,
                stored.get(key, OFFSET_INVALID),
                metadata=notes.get(key, ""),
                leader_epoch=epochs.get(key, -1),
            )
            for key in keys
        ]

    def _commit_answered(self, answer: Answer) -> None:
        callback = self._config.get("on_commit")
        if callback is not None:
            self._polling.answers.append(partial(callback, *answer))

    def _member_id(self) -> str | None:
        is_out = self._commits.fatal is not None or self.membership.is_out
        if self.closed or is_out or not self._fake.is_member(self):
            return None
        return f"{self.name}-{self.membership.lives}"

    def list_topics(self, topic: str | None = None, timeout: float = -1) -> ClusterMetadata:
        if self.closed:
            raise RuntimeError("Handle has been closed")
        self._fake.note(self.name, "list_topics", (topic,))
        self._fake.require_brokers(timeout, blind=self.blind)
        return self._fake.metadata(topic)

    def offsets_for_times(
        self, partitions: list[TopicPartition], timeout: float | None = None
    ) -> list[TopicPartition]:
        """For OFFSET_BEGINNING and OFFSET_END only: the fake's records have no times."""
        self._enter("offsets_for_times", _shown(partitions))
        self._fake.require_brokers(timeout, blind=self.blind)
        if self._fake.faults.takes_silent_edge():
            self._fake.clock.advance(timeout or 60.0)
            raise refusal(KafkaError._TIMED_OUT, "Failed to get offsets: Local: Timed out")
        return [self._edge(partition) for partition in partitions]

    def _edge(self, partition: TopicPartition) -> TopicPartition:
        log = self._fake.log_of((partition.topic, partition.partition))
        if log is None:
            raise refusal(KafkaError._UNKNOWN_PARTITION, "Failed to get offsets")
        offset = {OFFSET_BEGINNING: log.low, OFFSET_END: log.end}[partition.offset]
        return TopicPartition(partition.topic, partition.partition, offset)

    def _enter(self, call: str, *arguments: object) -> None:
        if self.closed:
            raise RuntimeError("Consumer closed")
        self._fake.note(self.name, call, arguments)
        injected = self._fake.faults.takes_call_error(call)
        if injected is not None:
            raise injected


def _is_incremental(config: Mapping[str, Any]) -> bool:
    strategy = str(config.get("partition.assignment.strategy", "range,roundrobin"))
    return config.get("group.protocol") == "consumer" or strategy.startswith("cooperative")


def _shown(items: list[TopicPartition]) -> tuple[tuple[str, int, int], ...]:
    return tuple((item.topic, item.partition, item.offset) for item in items)
