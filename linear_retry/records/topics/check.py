"""Finds the problems of a topic that a consumer needs."""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Literal, TypeAlias

from linear_retry.records.topics.description import NeededTopic, Purpose, TopicDescription
from linear_retry.records.topics.retry_topics import delay_text

Rule: TypeAlias = Literal[
    "missing",
    "partitions",
    "replication",
    "settings",
    "timestamps",
    "retention",
    "compaction",
    "size",
    "unused",
]
Severity: TypeAlias = Literal["refused", "error", "warning"]
"""`refused`: a consumer does not start with it. `error`: messages may be lost or blocked."""

_DAY_MS = 86_400_000
LEAST_KEPT_MS = 14 * _DAY_MS
"""A weekend, and more than a week to notice."""
_BEYOND_DELAY_MS = 7 * _DAY_MS


@dataclass(frozen=True, slots=True)
class TopicProblem:
    """A problem of a topic; `text` is a sentence with the remedy."""

    topic: str
    rule: Rule
    severity: Severity
    text: str

    @property
    def is_error(self) -> bool:
        """Whether it must be corrected."""
        return self.severity != "warning"


def kept_ms(delay_ms: int) -> int:
    """Returns how long a retry topic must keep its records, which are the only copies."""
    return max(LEAST_KEPT_MS, delay_ms + _BEYOND_DELAY_MS)


def check_topic(needed: NeededTopic, found: TopicDescription | None) -> list[TopicProblem]:
    """Returns the problems of a topic as the brokers describe it; None: it is missing."""
    if found is None:
        return [_missing(needed)]
    return [
        TopicProblem(needed.name, rule, severity, f"{needed.name}: {text}")
        for check in _CHECKS[needed.purpose]
        for rule, severity, text in check(needed, found)
    ]


def unused_topic(name: str, records: int, *, is_exact: bool) -> TopicProblem:
    """Returns the problem of a retry topic that no step of the strategy uses.

    `records` are still in it; at most that many, unless `is_exact`.
    """
    if records == 0:
        left = "and it is empty; delete it"
    else:
        count = f"{'' if is_exact else 'up to '}{records} records in it"
        left = f"but {count} have not been read; delete it when the retry line has read them"
    text = f"{name}: no delay of the strategy uses this topic, {left}"
    return TopicProblem(name, "unused", "warning", text)


_Problems: TypeAlias = Iterator[tuple[Rule, Severity, str]]
"""Problems without the topic's name, which is put before their text."""


def _missing(needed: NeededTopic) -> TopicProblem:
    severity: Severity = "warning"
    match needed.purpose:
        case "retry" | "dead letters":
            severity, why = "refused", "the consumer does not start without it"
        case "resolutions":
            why = "the first `dlq` command that records something must create it"
        case "journal":
            why = "events are dropped until it exists"
        case "control":
            why = "no command reaches the consumers until it exists"
    text = f"{needed.name}: no such topic: {why}; `linear-retry topics create` creates it"
    return TopicProblem(needed.name, "missing", severity, text)


def _partitions(needed: NeededTopic, found: TopicDescription) -> _Problems:
    has = f"partitions={found.partitions}, and the source has {needed.partitions}"
    if found.partitions < needed.partitions:
        refused: Severity = "refused" if needed.purpose == "retry" else "warning"
        yield (
            "partitions",
            refused,
            f"{has}: a record keeps the number of its partition, and those without one would be "
            f"mixed; add partitions up to {needed.partitions}",
        )
    elif found.partitions > needed.partitions:
        yield (
            "partitions",
            "warning",
            f"{has}: the others stay empty; ignore this if it is intended",
        )


def _replication(needed: NeededTopic, found: TopicDescription) -> _Problems:
    if found.replication < needed.replication:
        yield (
            "replication",
            "warning",
            f"a replication factor of {found.replication}, but {needed.replication} is needed; "
            "reassign its partitions",
        )
    isr = int(needed.settings.get("min.insync.replicas", 0))
    if found.min_insync_replicas is not None and found.min_insync_replicas < isr:
        yield (
            "replication",
            "warning",
            f"min.insync.replicas={found.min_insync_replicas} is less than the "
            f"source's: a record may be acknowledged with fewer copies; set it to {isr}",
        )


def _unreadable(_: NeededTopic, found: TopicDescription) -> _Problems:
    if found.is_compacted is None:
        yield (
            "settings",
            "warning",
            "this user may not read its settings, so they are not checked; give it "
            "DescribeConfigs on the topic",
        )


def _timestamps(_: NeededTopic, found: TopicDescription) -> _Problems:
    if found.stamps_by_broker is False:
        yield (
            "timestamps",
            "refused",
            "message.timestamp.type=CreateTime: records would be due by the clocks "
            "of their writers, and not in the order of the topic; set it to LogAppendTime",
        )


def _delay_retention(needed: NeededTopic, found: TopicDescription) -> _Problems:
    delay_ms = needed.delay_ms or 0
    if found.retention_ms is None or found.retention_ms >= kept_ms(delay_ms):
        return
    what = _retention(found.retention_ms)
    remedy = f"set it to {kept_ms(delay_ms)} ({delay_text(kept_ms(delay_ms))}) or more"
    if found.retention_ms <= delay_ms:
        yield (
            "retention",
            "refused",
            f"{what} is no longer than the delay, {delay_text(delay_ms)}: records would be removed "
            f"before they are due; {remedy}",
        )
    else:
        yield (
            "retention",
            "warning",
            f"{what} leaves {delay_text(found.retention_ms - delay_ms)} after the delay of "
            f"{delay_text(delay_ms)}: if the retry line is down for longer, the only copies of its "
            f"records are removed; {remedy}",
        )


def _size_retention(_: NeededTopic, found: TopicDescription) -> _Problems:
    if found.retention_bytes is not None:
        yield (
            "retention",
            "error",
            f"retention.bytes={found.retention_bytes}: records may be removed before "
            "they are due, whatever their age; set it to -1",
        )


def _letter_retention(_: NeededTopic, found: TopicDescription) -> _Problems:
    if found.retention_ms is not None and found.retention_ms < LEAST_KEPT_MS:
        yield (
            "retention",
            "warning",
            f"{_retention(found.retention_ms)}: letters that are still open "
            f"by then are removed; set it to {LEAST_KEPT_MS} ({delay_text(LEAST_KEPT_MS)}) or more",
        )


def _compaction(_: NeededTopic, found: TopicDescription) -> _Problems:
    if found.is_compacted:
        yield (
            "compaction",
            "error",
            "cleanup.policy has compact: of records with the same key, all but the last are "
            "removed; set it to delete",
        )


def _only_compaction(_: NeededTopic, found: TopicDescription) -> _Problems:
    if found.is_deleted or found.is_compacted is False:
        yield (
            "compaction",
            "error",
            "cleanup.policy is not compact alone: what is recorded about a letter may be "
            "removed before the letter, which is then replayed again; set it to compact",
        )


def _size(needed: NeededTopic, found: TopicDescription) -> _Problems:
    largest, limit = needed.largest_bytes, found.max_message_bytes
    if largest is not None and limit is not None and limit < largest:
        yield (
            "size",
            "error",
            f"max.message.bytes={limit}, and the source allows {largest}: a larger "
            "message cannot leave the line, and blocks the messages behind it; set it to "
            f"{needed.settings.get('max.message.bytes', largest)}",
        )


def _retention(retention_ms: int) -> str:
    return f"retention.ms={retention_ms} ({delay_text(retention_ms)})"


_Check: TypeAlias = Callable[[NeededTopic, TopicDescription], _Problems]

_OF_ALL: tuple[_Check, ...] = (_replication, _unreadable)
_CHECKS: Mapping[Purpose, tuple[_Check, ...]] = {
    "retry": (
        *(_partitions, *_OF_ALL, _timestamps),
        *(_delay_retention, _size_retention, _compaction, _size),
    ),
    "dead letters": (_partitions, *_OF_ALL, _letter_retention, _compaction, _size),
    "resolutions": (*_OF_ALL, _only_compaction),
    "journal": (*_OF_ALL, _compaction),
    "control": (*_OF_ALL, _compaction),
}
