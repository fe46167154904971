"""What is wrong with a topic that a consumer needs."""

from dataclasses import replace

import pytest

from linear_retry.records.topics.check import check_topic, kept_ms, unused_topic
from linear_retry.records.topics.description import NeededTopic, Purpose, TopicDescription

_HOUR_MS = 3_600_000
_DAY_MS = 24 * _HOUR_MS

_GOOD = TopicDescription(
    id="an-id",
    partitions=6,
    replication=3,
    may_write=True,
    max_message_bytes=1_064_972,
    retention_ms=14 * _DAY_MS,
    is_compacted=False,
    is_deleted=True,
    stamps_by_broker=True,
    min_insync_replicas=2,
)
_NEEDED = NeededTopic(
    name="orders.billing.retry.1h",
    purpose="retry",
    partitions=6,
    replication=3,
    settings={"min.insync.replicas": "2", "max.message.bytes": "1064972"},
    delay_ms=_HOUR_MS,
    largest_bytes=1_048_588,
)


def _needed(purpose: Purpose) -> NeededTopic:
    return replace(_NEEDED, name=f"the {purpose}", purpose=purpose, delay_ms=None)


@pytest.mark.parametrize("purpose", ["retry", "dead letters", "journal", "control"])
def test_a_topic_as_it_should_be(purpose: Purpose) -> None:
    """Nothing is wrong with it."""
    needed = _NEEDED if purpose == "retry" else _needed(purpose)
    assert [] == check_topic(needed, _GOOD)


@pytest.mark.parametrize(
    ("delay_ms", "expected_ms"),
    [(0, 14 * _DAY_MS), (7 * _DAY_MS, 14 * _DAY_MS), (7 * _DAY_MS + 1, 14 * _DAY_MS + 1)],
)
def test_a_retry_topic_keeps_its_records_for_two_weeks(delay_ms: int, expected_ms: int) -> None:
    """Or for a week beyond the delay, if that is longer."""
    assert expected_ms == kept_ms(delay_ms)


@pytest.mark.parametrize(
    ("change", "rule", "severity", "words"),
    [
        ({"partitions": 4}, "partitions", "refused", "partitions=4, and the source has 6"),
        ({"partitions": 8}, "partitions", "warning", "partitions=8, and the source has 6"),
        ({"stamps_by_broker": False}, "timestamps", "refused", "set it to LogAppendTime"),
        (
            {"retention_ms": 1_800_000},
            *("retention", "refused", "retention.ms=1800000 (30m) is no longer than the delay, 1h"),
        ),
        ({"retention_ms": _HOUR_MS}, "retention", "refused", "set it to 1209600000 (14d) or more"),
        (
            {"retention_ms": 2 * _DAY_MS},
            *("retention", "warning", "leaves 47h after the delay of 1h"),
        ),
        ({"retention_bytes": 1000}, "retention", "error", "retention.bytes=1000"),
        ({"is_compacted": True}, "compaction", "error", "set it to delete"),
        (
            {"max_message_bytes": 1_000_000},
            *("size", "error", "max.message.bytes=1000000, and the source allows 1048588"),
        ),
        (
            {"replication": 1},
            "replication",
            "warning",
            "a replication factor of 1, but 3 is needed",
        ),
        ({"min_insync_replicas": 1}, "replication", "warning", "set it to 2"),
        ({"is_compacted": None}, "settings", "warning", "DescribeConfigs"),
    ],
)
def test_a_retry_topic_that_is_wrong(
    change: dict[str, int], rule: str, severity: str, words: str
) -> None:
    """Each fault is one problem: which topic, its value, the rule, and what to do."""
    (problem,) = check_topic(_NEEDED, replace(_GOOD, **change))  # type: ignore[arg-type]  # of each field its type
    assert (_NEEDED.name, rule, severity) == (problem.topic, problem.rule, problem.severity)
    assert problem.text.startswith(f"{_NEEDED.name}: ")
    assert words in problem.text


def test_every_fault_is_found() -> None:
    """All at once, and not the first alone."""
    found = replace(_GOOD, partitions=1, stamps_by_broker=False, retention_ms=1, is_compacted=True)
    rules = [problem.rule for problem in check_topic(_NEEDED, found)]
    assert ["partitions", "compaction", "timestamps", "retention"] == rules


@pytest.mark.parametrize(
    ("purpose", "severity"),
    [
        ("retry", "refused"),
        ("dead letters", "refused"),
        ("resolutions", "warning"),
        ("journal", "warning"),
        ("control", "warning"),
    ],
)
def test_a_missing_topic(purpose: Purpose, severity: str) -> None:
    """A consumer does not start without those that hold messages."""
    (problem,) = check_topic(_needed(purpose), None)
    assert ("missing", severity) == (problem.rule, problem.severity)
    assert "no such topic" in problem.text


def test_dead_letters_may_bear_any_timestamp() -> None:
    """Nothing is due by them; but they are to be kept until somebody has dealt with them."""
    found = replace(_GOOD, stamps_by_broker=False, retention_ms=7 * _DAY_MS)
    (problem,) = check_topic(_needed("dead letters"), found)
    assert ("retention", "warning") == (problem.rule, problem.severity)
    assert "retention.ms=604800000 (7d)" in problem.text


@pytest.mark.parametrize("is_compacted", [False, True])
def test_resolutions_are_compacted_and_never_deleted(is_compacted: bool) -> None:
    """Else what is recorded is removed before the letter is."""
    found = replace(_GOOD, is_compacted=is_compacted)
    (problem,) = check_topic(_needed("resolutions"), found)
    assert ("compaction", "error") == (problem.rule, problem.severity)
    assert [] == check_topic(
        _needed("resolutions"), replace(_GOOD, is_compacted=True, is_deleted=False)
    )


def test_what_is_not_known_is_not_wrong() -> None:
    """Without permission to read the settings there is one warning, and no guess."""
    found = TopicDescription("an-id", 6, 3, None, None, None, None, None, None)
    assert ["settings"] == [problem.rule for problem in check_topic(_NEEDED, found)]


@pytest.mark.parametrize(
    ("records", "is_exact", "words"),
    [
        (0, True, "it is empty; delete it"),
        (3, True, "but 3 records in it have not been read"),
        (3, False, "but up to 3 records in it have not been read"),
    ],
)
def test_a_topic_that_no_delay_uses(records: int, is_exact: bool, words: str) -> None:
    """What it holds decides what to do; a number that may be too high is called that."""
    problem = unused_topic("orders.billing.retry.2h", records, is_exact=is_exact)
    assert ("unused", "warning", False) == (problem.rule, problem.severity, problem.is_error)
    assert words in problem.text
