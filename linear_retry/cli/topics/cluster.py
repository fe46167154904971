"""Describes the existing topics of a cluster, for those that a consumer needs."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from linear_retry.errors import UnknownTopicError
from linear_retry.kafka.topics.description import Topics
from linear_retry.kafka.topics.groups import Groups
from linear_retry.kafka.topics.reader import TopicReader
from linear_retry.records.topics.check import TopicProblem, unused_topic
from linear_retry.records.topics.description import NeededTopic, TopicDescription
from linear_retry.records.topics.retry_topics import delay_of, retry_group
from linear_retry.records.topics.setup import TopicSetup, needed_topics


@dataclass(frozen=True, slots=True)
class FoundTopics:
    """The topics that are needed, the brokers' description of each, and all other topics' names."""

    needed: tuple[NeededTopic, ...]
    descriptions: Mapping[str, TopicDescription | None]
    names: frozenset[str]


def find_topics(
    config: Mapping[str, Any], setup: TopicSetup, replication: int | None
) -> FoundTopics:
    """Asks the brokers for all topics. Raises `UnknownTopicError` if a source is missing."""
    described = Topics(config).describe([*setup.sources, *setup.names])
    missing = [name for name in setup.sources if described[name] is None]
    if missing:
        raise UnknownTopicError(
            f"no such topic: {', '.join(missing)}; the others get as many partitions: create it "
            "first, or correct the name"
        )
    sources = [found for name in setup.sources if (found := described[name]) is not None]
    needed = needed_topics(setup, sources, replication)
    return FoundTopics(tuple(needed), described, TopicReader(config).topics())


def unused_topics(
    config: Mapping[str, Any], setup: TopicSetup, found: FoundTopics
) -> Iterator[TopicProblem]:
    """Yields a problem for each retry topic of the prefix that the strategy does not use."""
    for name in sorted(found.names):
        if delay_of(name, setup.prefix) is not None and name not in setup.retry_topics:
            left, is_exact = unread(config, setup.group, name)
            # Offsets, which transaction markers have too.
            records = sum(max(0, end - first) for first, end in left.values())
            yield unused_topic(name, records, is_exact=is_exact)


def unread(
    config: Mapping[str, Any], group: str, topic: str
) -> tuple[dict[int, tuple[int, int]], bool]:
    """Returns the first and the end of the offsets that the retry line has yet to read.

    For each partition; and whether that is exact: if nobody says what it has committed, all count.
    """
    bounds = TopicReader(config).bounds(topic)
    committed = Groups(config).committed(retry_group(group), [(topic, each) for each in bounds])
    known = committed or {}
    left = {
        number: (max(first, known.get((topic, number), first)), end)
        for number, (first, end) in bounds.items()
    }
    return left, committed is not None
