"""Finds the problems of a topic that a consumer needs."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Literal, TypeAlias

from linear_retry.records.durations import DAY_MS, delay_text
from linear_retry.records.topics.description import NeededTopic, TopicDescription

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

LEAST_KEPT_MS = 14 * DAY_MS
"""A weekend, and more than a week to notice."""
_BEYOND_DELAY_MS = 7 * DAY_MS


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
    problems = [*_of_all(needed, found)]
    match needed.purpose:
        case "retry":
            problems += [*_of_messages(needed, found), *_of_retries(needed, found)]
        case "dead letters":
            kept = "letters that are still open by then are removed"
            problems += [*_of_messages(needed, found), *_kept_long(found, kept)]
        case "scheduler":
            kept = "if the scheduler is down for longer, the only copies of its records are removed"
            problems += [*_of_messages(needed, found), *_limited_by_size(found)]
            problems += _kept_long(found, kept)
        case "resolutions":
            problems += _of_resolutions(found)
        case "journal" | "control":
            problems += _compaction(found)
    return [
        TopicProblem(needed.name, rule, severity, f"{needed.name}: {text}")
        for rule, severity, text in problems
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


_Problem: TypeAlias = tuple[Rule, Severity, str]
"""A problem without the topic's name, which is put before its text."""
_Problems: TypeAlias = Iterator[_Problem]


def _missing(needed: NeededTopic) -> TopicProblem:
    severity: Severity = "warning"
    match needed.purpose:
        case "retry" | "scheduler" | "dead letters":
            severity, why = "refused", "the consumer does not start without it"
        case "resolutions":
            why = "the first `dlq` command that records something must create it"
        case "journal":
            why = "events are dropped until it exists"
        case "control":
            why = "no command reaches the consumers until it exists"
    text = f"{needed.name}: no such topic: {why}; `linear-retry topics create` creates it"
    return TopicProblem(needed.name, "missing", severity, text)


def _of_all(needed: NeededTopic, found: TopicDescription) -> _Problems:
    if found.replication < needed.replication:
        yield _warning(
            "replication",
            f"a replication factor of {found.replication}, but {needed.replication} is needed; "
            "reassign its partitions",
        )
    isr = int(needed.settings.get("min.insync.replicas", 0))
    if found.min_insync_replicas is not None and found.min_insync_replicas < isr:
        yield _warning(
            "replication",
            f"min.insync.replicas={found.min_insync_replicas} is less than the source's: a record "
            f"may be acknowledged with fewer copies; set it to {isr}",
        )
    if found.is_compacted is None:
        yield _warning(
            "settings",
            "this user may not read its settings, so they are not checked; give it "
            "DescribeConfigs on the topic",
        )


def _of_messages(needed: NeededTopic, found: TopicDescription) -> _Problems:
    """Of a topic that takes the messages of the sources, each to the number of its partition."""
    has = f"partitions={found.partitions}, and the source has {needed.partitions}"
    if found.partitions < needed.partitions:
        yield (
            "partitions",
            "refused" if needed.purpose == "retry" else "warning",
            f"{has}: a record keeps the number of its partition, and those without one would be "
            f"mixed; add partitions up to {needed.partitions}",
        )
    elif found.partitions > needed.partitions:
        yield _warning("partitions", f"{has}: the others stay empty; ignore this if it is intended")
    yield from _compaction(found)
    largest, limit = needed.largest_bytes, found.max_message_bytes
    if largest is not None and limit is not None and limit < largest:
        yield _error(
            "size",
            f"max.message.bytes={limit}, and the source allows {largest}: a larger message cannot "
            "leave the line, and blocks the messages behind it; set it to "
            f"{needed.settings.get('max.message.bytes', largest)}",
        )


def _of_retries(needed: NeededTopic, found: TopicDescription) -> _Problems:
    if found.stamps_by_broker is False:
        yield _refused(
            "timestamps",
            "message.timestamp.type=CreateTime: records would be due by the clocks of their "
            "writers, and not in the order of the topic; set it to LogAppendTime",
        )
    yield from _limited_by_size(found)
    delay_ms = needed.delay_ms or 0
    if found.retention_ms is None or found.retention_ms >= kept_ms(delay_ms):
        return
    what, remedy = _retention(found.retention_ms, kept_ms(delay_ms))
    if found.retention_ms <= delay_ms:
        yield _refused(
            "retention",
            f"{what} is no longer than the delay, {delay_text(delay_ms)}: records would be removed "
            f"before they are due; {remedy}",
        )
    else:
        yield _warning(
            "retention",
            f"{what} leaves {delay_text(found.retention_ms - delay_ms)} after the delay of "
            f"{delay_text(delay_ms)}: if the retry line is down for longer, the only copies of its "
            f"records are removed; {remedy}",
        )


def _limited_by_size(found: TopicDescription) -> _Problems:
    if found.retention_bytes is not None:
        yield _error(
            "retention",
            f"retention.bytes={found.retention_bytes}: records may be removed before they are "
            "due, whatever their age; set it to -1",
        )


def _kept_long(found: TopicDescription, why: str) -> _Problems:
    if found.retention_ms is not None and found.retention_ms < LEAST_KEPT_MS:
        what, remedy = _retention(found.retention_ms, LEAST_KEPT_MS)
        yield _warning("retention", f"{what}: {why}; {remedy}")


def _compaction(found: TopicDescription) -> _Problems:
    if found.is_compacted:
        yield _error(
            "compaction",
            "cleanup.policy has compact: of records with the same key, all but the last are "
            "removed; set it to delete",
        )


def _of_resolutions(found: TopicDescription) -> _Problems:
    if found.is_deleted or found.is_compacted is False:
        yield _error(
            "compaction",
            "cleanup.policy is not compact alone: what is recorded about a letter may be removed "
            "before the letter, which is then replayed again; set it to compact",
        )


def _refused(rule: Rule, text: str) -> _Problem:
    return rule, "refused", text


def _error(rule: Rule, text: str) -> _Problem:
    return rule, "error", text


def _warning(rule: Rule, text: str) -> _Problem:
    return rule, "warning", text


def _retention(found_ms: int, needed_ms: int) -> tuple[str, str]:
    """What the retention is, and what to set it to."""
    what = f"retention.ms={found_ms} ({delay_text(found_ms)})"
    return what, f"set it to {needed_ms} ({delay_text(needed_ms)}) or more"
