"""Checks, before the group is joined, that retry topics keep messages for their delays."""

from collections.abc import Iterator, Mapping, Sequence

from linear_retry.consumer.settings.consumer_config import ConsumerConfig
from linear_retry.consumer.settings.scheduler import Scheduler
from linear_retry.errors import BrokerError, ConfigurationError
from linear_retry.kafka.topics.description import Topics
from linear_retry.kafka.topics.groups import Groups
from linear_retry.log.lines import log_retry_topics, log_topic_problem
from linear_retry.records.topics.check import check_topic
from linear_retry.records.topics.description import NeededTopic, Purpose, TopicDescription
from linear_retry.records.topics.names import retry_group

_WITHIN_S = 5.0
_RETURNS = "back_to_source=True or Scheduler"


def check_retry_topics(config: ConsumerConfig, subscribed: Mapping[str, int]) -> None:
    """Raises `ConfigurationError` for what would break their promise; warns about the rest.

    `subscribed` has the number of partitions of each topic that is read. What the brokers do not
    say, as some may not, is not checked: `linear-retry topics check` does it as somebody who may
    ask.
    """
    retries = config.retries
    if retries is None:
        return
    log_retry_topics(config.line.group_id, retries.topics, reads=config.reads_retries)
    # The sources are not known where the retry topics are read.
    sources = {} if config.reads_retries else subscribed
    partitions = max(sources.values(), default=0)
    purpose: Purpose = "scheduler" if isinstance(retries, Scheduler) else "retry"
    problems = [
        problem
        for topic, found in _described(config, retries.topics).items()
        for problem in check_topic(
            NeededTopic(topic, purpose, partitions, 1, delay_ms=retries.delay_ms(topic)), found
        )
    ]
    refused = [each.text for each in problems if each.severity == "refused"]
    if retries.back_to_source and sources:
        refused += _compacted(config, [*sources])
        _warn_of_others(config, sources)
    if refused:
        raise ConfigurationError("\n".join(refused))
    for problem in problems:
        if problem.is_error:
            log_topic_problem(problem.topic, problem.text)


def _compacted(config: ConsumerConfig, sources: Sequence[str]) -> Iterator[str]:
    """A returned message would replace newer ones of its key in a compacted topic."""
    for topic, found in _described(config, sources).items():
        if found is not None and found.is_compacted:
            yield (
                f"{_RETURNS}: {topic} is compacted, and a message that comes back would replace a "
                "newer one with its key; use RetryTopics without back_to_source"
            )
        if found is not None and found.is_compacted is None:
            log_topic_problem(
                topic,
                f"{topic}: this user may not read its settings, so whether it is compacted, which "
                f"{_RETURNS} forbids, is not checked; give it DescribeConfigs on the topic",
            )


def _warn_of_others(config: ConsumerConfig, sources: Mapping[str, int]) -> None:
    """Names the other groups that read the sources, as far as the brokers say within 5 s."""
    partitions = [(topic, number) for topic in sources for number in range(sources[topic])]
    ours = config.line.group_id, retry_group(config.line.group_id)
    make = config.dependencies
    groups = Groups(config.settings.connection, _WITHIN_S, make.admin, make.consumer)
    others = groups.reading(partitions, ours, make.clock.now_s)
    if others:
        names = ", ".join(sources)
        log_topic_problem(
            names,
            f"{_RETURNS}: retries come back to {names}, which other groups read too "
            f"({', '.join(others)}): those of linear_retry pass them over, any other reads these "
            "messages again",
        )


def _described(
    config: ConsumerConfig, names: Sequence[str]
) -> Mapping[str, TopicDescription | None]:
    """Those that the brokers describe."""
    try:
        return Topics(config.settings.connection, _WITHIN_S, config.dependencies.admin).describe(
            names
        )
    except BrokerError as error:
        log_topic_problem(", ".join(names), f"topics are not checked: {error}")
        return {}
