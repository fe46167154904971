"""Builds the publisher of a consumer's dead letters."""

from uuid import uuid4

from linear_retry.consumer.letters.plain import PlainDelivery
from linear_retry.consumer.letters.publisher import (
    AckWait,
    DeadLetterDelivery,
    DeadLetterPublisher,
    Stop,
)
from linear_retry.consumer.letters.transactional import TransactionalDelivery
from linear_retry.consumer.partitions.assignment import Assignment
from linear_retry.consumer.partitions.flow_control import FlowControl
from linear_retry.consumer.settings.consumer_config import ConsumerConfig
from linear_retry.events import Listener
from linear_retry.kafka.consumer.client import Client
from linear_retry.kafka.producers.acknowledged import AcknowledgedProducer
from linear_retry.kafka.producers.transactional import TransactionalProducer


def dead_letter_publisher(
    config: ConsumerConfig,
    client: Client,
    assignment: Assignment,
    flow_control: FlowControl,
    stop: Stop,
    emit: Listener,
) -> DeadLetterPublisher | None:
    """Returns the publisher, plain or transactional; None if the consumer has no dead letters."""
    letters = config.dead_letters
    if letters is None:
        return None
    clock, make = config.dependencies.clock, config.dependencies.producer
    wait = AckWait(clock, assignment.epochs, stop, answer_within_s=config.answer_within_s)
    delivery: DeadLetterDelivery
    if letters.transactional:
        delivery = _transactional(config, letters.topic, client, wait, flow_control)
    else:
        keys = config.producer_config
        delivery = PlainDelivery(AcknowledgedProducer(letters.topic, keys, make), wait)
    topics = () if config.retries is None else config.retries.topics
    return DeadLetterPublisher(delivery, wait, letters.oversized, emit, topics)


def _transactional(
    config: ConsumerConfig, topic: str, client: Client, wait: AckWait, flow_control: FlowControl
) -> DeadLetterDelivery:
    # A transactional.id shared by members would make them fence each other for ever.
    own_id = {"transactional.id": f"{config.settings.group_id}-{uuid4()}"}
    keys = {**config.producer_config, **own_id}
    return TransactionalDelivery(
        client,
        TransactionalProducer(topic, keys, config.dependencies.producer),
        wait,
        flow_control,
        transaction_timeout_s=int(keys["transaction.timeout.ms"]) / 1000,
        start_timeout_s=config.start_timeout_s,
    )
