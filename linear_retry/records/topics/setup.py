"""The topics that a consumer needs beside its sources, their settings, and the permissions."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from types import MappingProxyType
from typing import Literal, TypeAlias

from linear_retry.records.dead_letter import resolutions_topic
from linear_retry.records.durations import DAY_MS, HOUR_MS
from linear_retry.records.topics.check import LEAST_KEPT_MS, kept_ms
from linear_retry.records.topics.description import NeededTopic, Purpose, TopicDescription
from linear_retry.records.topics.names import (
    CONVENTION,
    follows_convention,
    is_topic_name,
    retry_group,
    retry_topic,
)

_MONTH_MS = 30 * DAY_MS
_HEADERS_BYTES = 16 * 1024
"""The size that our headers add to a message, with exception texts."""

# Retries are sorted by the broker's clock, not by those of the writers. In the journal it shows how
# far each member's clock is off, and takes entries of one that is far ahead.
_BY_BROKER: Mapping[str, str] = MappingProxyType({"message.timestamp.type": "LogAppendTime"})
_RESOLUTIONS: Mapping[str, str] = MappingProxyType(
    {
        "cleanup.policy": "compact",
        # Kafka compacts only closed segments. By default one is closed after a week or at 1 GiB,
        # and half of the topic must be new: in practice nothing would ever be compacted. A
        # tombstone is kept for a day, though no reader takes longer than some minutes.
        "segment.ms": str(HOUR_MS),
        "segment.bytes": str(4 * 2**20),
        "min.cleanable.dirty.ratio": "0.1",
        "delete.retention.ms": str(HOUR_MS),
    }
)

Resource: TypeAlias = Literal["Topic", "Group", "TransactionalId"]


@dataclass(frozen=True, slots=True)
class TopicSetup:
    """A consumer whose messages leave its line: its sources, its group, the topics it writes to.

    `retry_topics` has the milliseconds that records wait in each. All begin with `prefix` and a
    dot; or there is only one, and `prefix` is None. In their place, `scheduler` is the topic of
    that service. `journal` and `control` are None if it does not use them.
    """

    sources: tuple[str, ...]
    group: str
    retry_topics: Mapping[str, int]
    prefix: str | None
    dead_letters: str
    journal: str | None
    control: str | None
    scheduler: str | None = None

    @property
    def names(self) -> tuple[str, ...]:
        """All topics that it needs beside the sources."""
        return (*self.retry_topics, *self.other_names)

    @property
    def other_names(self) -> tuple[str, ...]:
        """All that are not retry topics."""
        letters = (self.dead_letters, resolutions_topic(self.dead_letters))
        names = (self.scheduler, *letters, self.journal, self.control)
        return tuple(name for name in names if name is not None)

    @property
    def retry_patterns(self) -> tuple[str, ...]:
        """The names of its retry topics for permissions; with a prefix, including future ones."""
        return (*self.retry_topics,) if self.prefix is None else (f"{self.prefix}.*",)


def scheduler_group(topic: str) -> str:
    """Returns the consumer group of the scheduler that reads `topic`, unless it has another."""
    return f"{topic}.scheduler"


def retry_topics(prefix: str, delays_ms: Iterable[int]) -> dict[str, int]:
    """Returns a topic for each delay, with the delay."""
    return {retry_topic(prefix, delay_ms): delay_ms for delay_ms in delays_ms}


def name_problems(setup: TopicSetup, *, convention: bool) -> Iterator[str]:
    """Yields the problems of the names, one sentence each."""
    names = (*setup.sources, *setup.names)
    for name in dict.fromkeys(names):
        if names.count(name) > 1:
            yield f"{name!r}: two topics have this name; give them different ones"
        if not is_topic_name(name):
            yield (
                f"{name!r}: {len(name)} characters, and the name of a topic has at most 249 "
                "letters, digits, dots, underscores and hyphens; give another name or prefix"
            )
        elif convention and not follows_convention(name):
            yield (
                f"{name!r}: a name by the convention has the form {CONVENTION}; give another name "
                "or prefix"
            )


def needed_topics(
    setup: TopicSetup, sources: Sequence[TopicDescription], replication: int | None = None
) -> list[NeededTopic]:
    """Returns every topic that it needs beside its sources, sized like the largest of these.

    `replication` is the number of replicas of each; None: as many as a source has.
    """
    return list(_Shape(sources, replication).topics(setup))


def resolutions_needed(dead_letters: str, partitions: int, replication: int) -> NeededTopic:
    """Returns the topic for the resolutions of these letters, sized like the letters' topic."""
    name = resolutions_topic(dead_letters)
    return NeededTopic(name, "resolutions", partitions, replication, _RESOLUTIONS)


class _Shape:
    """The properties that the topics of a set-up share with its sources."""

    def __init__(self, sources: Sequence[TopicDescription], replication: int | None) -> None:
        limits = [each.max_message_bytes for each in sources if each.max_message_bytes is not None]
        in_sync = [each.min_insync_replicas or 1 for each in sources]
        self._partitions = max(each.partitions for each in sources)
        self._replication = replication or max(each.replication for each in sources)
        self._largest_bytes = max(limits, default=None)
        # More than the replicas, and nothing could be written.
        self._in_sync = min(max(in_sync), self._replication)

    def topics(self, setup: TopicSetup) -> Iterator[NeededTopic]:
        for name, delay_ms in setup.retry_topics.items():
            yield self._retry(name, delay_ms)
        if setup.scheduler is not None:
            yield self._only_copies(setup.scheduler, "scheduler", LEAST_KEPT_MS)
        yield self._only_copies(setup.dead_letters, "dead letters", _MONTH_MS)
        made = resolutions_needed(setup.dead_letters, self._partitions, self._replication)
        yield replace(made, settings=self._safe(made.settings))
        if setup.journal is not None:
            settings = self._safe({**_BY_BROKER, **_deleted_after(_MONTH_MS)})
            yield NeededTopic(setup.journal, "journal", 1, self._replication, settings)
        if setup.control is not None:
            settings = self._safe(_deleted_after(HOUR_MS))
            yield NeededTopic(setup.control, "control", 1, self._replication, settings)

    def _retry(self, name: str, delay_ms: int) -> NeededTopic:
        return NeededTopic(
            name,
            "retry",
            self._partitions,
            self._replication,
            self._safe({**_BY_BROKER, **_kept(kept_ms(delay_ms)), **self._sizes()}),
            delay_ms,
            self._largest_bytes,
        )

    def _only_copies(self, name: str, purpose: Purpose, retention_ms: int) -> NeededTopic:
        return NeededTopic(
            name,
            purpose,
            self._partitions,
            self._replication,
            self._safe({**_kept(retention_ms), **self._sizes()}),
            largest_bytes=self._largest_bytes,
        )

    def _sizes(self) -> dict[str, str]:
        if self._largest_bytes is None:
            return {}
        return {"max.message.bytes": str(self._largest_bytes + _HEADERS_BYTES)}

    def _safe(self, settings: Mapping[str, str]) -> dict[str, str]:
        return {**settings, "min.insync.replicas": str(self._in_sync)}


def _deleted_after(retention_ms: int) -> dict[str, str]:
    return {"cleanup.policy": "delete", "retention.ms": str(retention_ms)}


def _kept(retention_ms: int) -> dict[str, str]:
    """Returns settings that keep records this long, whatever the brokers' default size limit is."""
    return {**_deleted_after(retention_ms), "retention.bytes": "-1"}


@dataclass(frozen=True, slots=True)
class Acl:
    """Operations on a resource that must be permitted. A name that ends in * is a prefix.

    `purpose` says why, in Markdown.
    """

    purpose: str
    resource: Resource
    name: str
    operations: tuple[str, ...]

    @property
    def pattern(self) -> str:
        """Kafka's pattern type for the name."""
        return "prefixed" if self.name.endswith("*") else "literal"


def live_acls(
    setup: TopicSetup, *, transactional: bool, back_to_source: bool = False
) -> Iterator[Acl]:
    """Yields the permissions of the live line."""
    for source in setup.sources:
        yield Acl("consumer", "Topic", source, ("Read",))
        if back_to_source:
            purpose = "retry topics with `back_to_source=True`"
            yield Acl(purpose, "Topic", source, ("DescribeConfigs",))
    yield Acl("consumer", "Group", setup.group, ("Read",))
    yield Acl("dead letters", "Topic", setup.dead_letters, ("Write",))
    if transactional:
        yield _transactions("dead letters with `transactional=True`", setup.group)
    yield from _operations(setup, "journal", "control")
    for name in setup.retry_patterns:
        yield Acl("retry topics", "Topic", name, ("Write", "DescribeConfigs"))
    if setup.scheduler is not None:
        yield Acl("scheduler", "Topic", setup.scheduler, ("Write", "DescribeConfigs"))
        for source in setup.sources:
            yield Acl("scheduler", "Topic", source, ("DescribeConfigs",))


def scheduler_acls(topic: str, destinations: Iterable[str]) -> Iterator[Acl]:
    """Yields the permissions of `scheduler run`."""
    purpose = "`scheduler run`"
    yield Acl(purpose, "Topic", topic, ("Read",))
    yield Acl(purpose, "Group", scheduler_group(topic), ("Read",))
    for name in destinations:
        yield Acl(purpose, "Topic", name, ("Write",))
    yield Acl(purpose, "TransactionalId", "linear-retry-*", ("Write",))


def retry_acls(setup: TopicSetup, *, transactional: bool, back_to_source: bool) -> Iterator[Acl]:
    """Yields the permissions of the retry line, which reads and writes the retry topics."""
    line, group = "retry line", retry_group(setup.group)
    for name in setup.retry_patterns:
        yield Acl(line, "Topic", name, ("Read", "Write", "DescribeConfigs"))
    yield Acl(line, "Group", group, ("Read",))
    yield Acl(line, "Topic", setup.dead_letters, ("Write",))
    if transactional or back_to_source:
        yield _transactions("retry line with `transactional=True` or `back_to_source=True`", group)
    if back_to_source:
        for source in setup.sources:
            yield Acl("retry line with `back_to_source=True`", "Topic", source, ("Write",))
    yield from _operations(setup, line, line)


def watch_acls(setup: TopicSetup) -> Iterator[Acl]:
    """Yields the permissions of a user who looks at the groups, and asks whether they live."""
    purpose = "`circuits list`, `watch`, console"
    if setup.journal is not None:
        yield Acl(purpose, "Topic", setup.journal, ("Read",))
    groups = [setup.group]
    if setup.retry_patterns:
        groups.append(retry_group(setup.group))
    for group in groups:
        yield Acl(purpose, "Group", group, ("Describe",))
    for name in (*setup.sources, *setup.retry_patterns):
        yield Acl(purpose, "Topic", name, ("Describe",))


def _operations(setup: TopicSetup, journal: str, control: str) -> Iterator[Acl]:
    """The permissions for both topics, where it uses them, for these purposes."""
    if setup.journal is not None:
        yield Acl(journal, "Topic", setup.journal, ("Write",))
    if setup.control is not None:
        yield Acl(control, "Topic", setup.control, ("Read", "Write"))


def _transactions(purpose: str, group: str) -> Acl:
    """The permission for transactional ids: each consumer has its own, with its group as prefix."""
    return Acl(purpose, "TransactionalId", f"{group}-*", ("Write",))
