"""confluent_kafka's only door; its names that pass through as they are."""

from confluent_kafka import Consumer, KafkaError, KafkaException, Message, Producer
from confluent_kafka.admin import AdminClient

__all__ = ["AdminClient", "Consumer", "KafkaError", "KafkaException", "Message", "Producer"]
