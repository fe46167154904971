"""The topics that a consumer needs."""

from dataclasses import replace
from typing import Any

import pytest

from linear_retry.records.topics.check import check_topic
from linear_retry.records.topics.description import NeededTopic, TopicDescription
from linear_retry.records.topics.names import colliding, derived_name, follows_convention
from linear_retry.records.topics.setup import TopicSetup, name_problems, needed_topics, retry_topics

_SETUP = TopicSetup(
    sources=("orders",),
    group="billing",
    retry_topics=retry_topics("orders.billing.retry", (300_000, 1_800_000, 3_600_000)),
    prefix="orders.billing.retry",
    dead_letters="orders.dlq",
    journal="linear-retry.journal",
    control="linear-retry.control",
)
_SOURCE = TopicDescription(
    id="an-id",
    partitions=6,
    replication=3,
    may_write=True,
    max_message_bytes=2_000_000,
    retention_ms=604_800_000,
    is_compacted=False,
    is_deleted=True,
    stamps_by_broker=False,
    min_insync_replicas=2,
)


def _as_created(topic: NeededTopic) -> TopicDescription:
    """What brokers would say of it."""
    settings = topic.settings
    retention_ms, size = settings.get("retention.ms"), settings.get("max.message.bytes")
    return TopicDescription(
        id="another-id",
        partitions=topic.partitions,
        replication=topic.replication,
        may_write=True,
        max_message_bytes=None if size is None else int(size),
        retention_ms=None if retention_ms is None else int(retention_ms),
        is_compacted=settings["cleanup.policy"] == "compact",
        is_deleted=settings["cleanup.policy"] == "delete",
        stamps_by_broker=settings.get("message.timestamp.type") == "LogAppendTime",
        min_insync_replicas=int(settings["min.insync.replicas"]),
    )


def test_every_topic_is_there() -> None:
    """A retry topic for each delay, then where letters, events and commands go."""
    needed = needed_topics(_SETUP, [_SOURCE])
    assert [
        ("orders.billing.retry.5m", 6, 300_000),
        ("orders.billing.retry.30m", 6, 1_800_000),
        ("orders.billing.retry.1h", 6, 3_600_000),
        ("orders.dlq", 6, None),
        ("orders.dlq.resolved", 6, None),
        ("linear-retry.journal", 1, None),
        ("linear-retry.control", 1, None),
    ] == [(topic.name, topic.partitions, topic.delay_ms) for topic in needed]
    assert {3} == {topic.replication for topic in needed}
    assert _SETUP.names == tuple(topic.name for topic in needed)


def test_the_topic_of_a_scheduler() -> None:
    """It keeps the only copies of messages, as retry topics do, as long as the service is down."""
    setup = replace(_SETUP, retry_topics={}, prefix=None, scheduler="later")
    first, *others = needed_topics(setup, [_SOURCE])
    assert ("later", "scheduler", 6) == (first.name, first.purpose, first.partitions)
    assert {
        "cleanup.policy": "delete",
        "retention.ms": "1209600000",
        "retention.bytes": "-1",
        "max.message.bytes": "2016384",
        "min.insync.replicas": "2",
    } == first.settings
    assert setup.names == ("later", *(topic.name for topic in others))
    assert [] == check_topic(first, _as_created(first))


def test_the_settings_of_a_retry_topic() -> None:
    """By the broker's clock, for two weeks, whatever the brokers' defaults are."""
    first = needed_topics(_SETUP, [_SOURCE])[0]
    assert {
        "cleanup.policy": "delete",
        "message.timestamp.type": "LogAppendTime",
        "retention.ms": "1209600000",
        "retention.bytes": "-1",
        "max.message.bytes": "2016384",
        "min.insync.replicas": "2",
    } == first.settings


def test_the_settings_of_the_journal() -> None:
    """By the broker's clock, which corrects those of the members for Spark."""
    (journal,) = [each for each in needed_topics(_SETUP, [_SOURCE]) if each.purpose == "journal"]
    assert {
        "cleanup.policy": "delete",
        "message.timestamp.type": "LogAppendTime",
        "retention.ms": "2592000000",
        "min.insync.replicas": "2",
    } == journal.settings


@pytest.mark.parametrize("replication", [None, 1, 5])
def test_what_is_created_passes_the_check(replication: int | None) -> None:
    """Nothing that was planned is found to be wrong."""
    needed = needed_topics(_SETUP, [_SOURCE], replication)
    assert [] == [one for topic in needed for one in check_topic(topic, _as_created(topic))]


def test_several_sources() -> None:
    """The largest of each kind: each of their records must fit, and find its partition."""
    small = replace(_SOURCE, partitions=2, max_message_bytes=1000, min_insync_replicas=1)
    large = replace(small, partitions=12, replication=1, max_message_bytes=None)
    needed = needed_topics(_SETUP, [small, large])[0]
    assert (12, 3, 1000) == (needed.partitions, needed.replication, needed.largest_bytes)


def test_one_replica_must_be_enough_for_one() -> None:
    """Two in sync of one replica would let nobody write."""
    needed = needed_topics(_SETUP, [_SOURCE], replication=1)
    assert {"1"} == {topic.settings["min.insync.replicas"] for topic in needed}


def test_unknown_settings_are_left_to_the_brokers() -> None:
    """Who may not read the source's limit gets the brokers' own."""
    needed = needed_topics(_SETUP, [replace(_SOURCE, max_message_bytes=None)])[0]
    assert "max.message.bytes" not in needed.settings


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"retry_topics": {"orders/retry.5m": 1}}, "'orders/retry.5m': 15 characters"),
        ({"retry_topics": {"x" * 250: 1}}, "at most 249 letters"),
        ({"dead_letters": "orders"}, "two topics have this name"),
        ({"control": "linear-retry.journal"}, "two topics have this name"),
    ],
)
def test_names_that_cannot_be(change: dict[str, Any], words: str) -> None:
    """Each name is said with what is wrong with it."""
    problems = [*name_problems(replace(_SETUP, **change), convention=False)]
    assert problems
    assert any(words in problem for problem in problems)


def test_names_without_problems() -> None:
    """The defaults are names."""
    assert [] == [*name_problems(_SETUP, convention=False)]


def test_the_convention_is_asked_for() -> None:
    """Then names of two parts, or of five, are refused."""
    problems = [*name_problems(_SETUP, convention=True)]
    assert {"'orders'", "'orders.dlq'", "'linear-retry.journal'", "'linear-retry.control'"} == {
        problem.partition(":")[0] for problem in problems
    }


@pytest.mark.parametrize("source", ["org.orders.created", "org.orders.eu.created"])
def test_derived_names_follow_the_convention(source: str) -> None:
    """Those of all topics of a source that does."""
    assert follows_convention(source)
    letters = derived_name(source, "dlq", convention=True)
    prefix = derived_name(source, "billing", "retry", convention=True)
    topics = retry_topics(prefix, (300_000,))
    setup = replace(_SETUP, sources=(source,), retry_topics=topics, dead_letters=letters)
    alone = replace(setup, journal=None, control=None)
    assert [] == [*name_problems(alone, convention=True)]
    assert prefix.endswith("created-billing-retry")


@pytest.mark.parametrize("name", ["orders", "a.b", "a.b.c.d.e", "a..c", ".a.b", "a.b."])
def test_names_beside_the_convention(name: str) -> None:
    """Three or four parts, none of them empty."""
    assert not follows_convention(name)


def test_dots_and_underscores_collide() -> None:
    """As brokers have it: they refuse one beside the other."""
    assert ["a_b.c"] == colliding("a.b.c", ["a.b.c", "a_b.c", "a-b.c", "a.b"])
