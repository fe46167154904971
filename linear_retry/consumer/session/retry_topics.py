"""Checks, before the group is joined, that retry topics keep messages for their delays."""

from collections.abc import Iterator, Mapping, Sequence

from linear_retry.consumer.config.consumer_config import ConsumerConfig
from linear_retry.consumer.config.topics import is_pattern
from linear_retry.consumer.dead_letters.scheduler import Scheduler
from linear_retry.errors import BrokerError, ConfigurationError
from linear_retry.kafka.topics.description import Topics
from linear_retry.log import log_retry_topics, log_topic_problem
from linear_retry.records.topics.check import check_topic
from linear_retry.records.topics.description import NeededTopic, Purpose, TopicDescription

_WITHIN_S = 5.0
_RETURNS = "back_to_source=True or Scheduler"


def check_retry_topics(config: ConsumerConfig, counts: Mapping[str, int]) -> None:
    """Raises `ConfigurationError` for what would break their promise; warns about the rest.

    `counts` has the partitions of each topic. What the brokers do not say, as some may not, is not
    checked: `linear-retry topics check` does it as somebody who may ask.
    """
    retries = config.retries
    if retries is None:
        return
    log_retry_topics(config.line.group_id, retries.topics, reads=config.reads_retries)
    # The sources are not known where the retry topics are read.
    sources = [] if config.reads_retries else [t for t in config.topics if not is_pattern(t)]
    partitions = max((counts.get(topic, 0) for topic in sources), default=0)
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
        refused += _compacted(config, sources)
        names = ", ".join(sources)
        text = f"{_RETURNS}: retries come back to {names}; other groups of linear_retry "
        log_topic_problem(names, f"{text}pass them over, any other reads these messages again")
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
