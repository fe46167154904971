"""Sends the letters of a stream, which has no consumer to poll meanwhile."""

from linear_retry.consumer.dead_letters.publisher import DeadLetterPublisher, Steps
from linear_retry.errors import BrokerError, UnknownTopicError
from linear_retry.kafka import KafkaException
from linear_retry.retry.engine import Answer

_START_WITHIN_S = 10.0


def answer(steps: Steps[Answer]) -> Answer:
    """Runs the steps to their result."""
    while True:
        try:
            next(steps)
        except StopIteration as ended:
            found: Answer = ended.value
            return found


def check_topic(publisher: DeadLetterPublisher) -> None:
    """Raises `ConfigurationError`, `UnknownTopicError` and `BrokerError`."""
    publisher.prepare()
    try:
        is_there = publisher.partitions(publisher.topic, _START_WITHIN_S) is not None
    except KafkaException as error:
        raise BrokerError(
            f"topic {publisher.topic!r}: no broker said within {_START_WITHIN_S:g} s whether it "
            f"exists: {error}; check the address, the network and the security settings"
        ) from error
    if not is_there:
        raise UnknownTopicError(
            f"topic {publisher.topic!r} for dead letters does not exist; create it, or give "
            "this user DESCRIBE on it"
        )
