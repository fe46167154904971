"""The only package that imports confluent_kafka; re-exports the names that others need."""

from confluent_kafka import Consumer, KafkaError, KafkaException, Message, Producer
from confluent_kafka.admin import AdminClient

__all__ = ["AdminClient", "Consumer", "KafkaError", "KafkaException", "Message", "Producer"]
