"""Charges orders one after another, and waits while the payment service is down."""

import logging

import httpx
from confluent_kafka import Message

from linear_retry import LinearConsumer, RetryAfter, Strategy

payments = httpx.Client(base_url="http://localhost:8000", timeout=10)


def charge(message: Message) -> None:
    """Charges one order. What it raises decides between retry and dead letter."""
    once = f"{message.topic()}/{message.partition()}/{message.offset()}"
    response = payments.post("/charges", content=message.value(), headers={"Idempotency-Key": once})
    if response.status_code in (429, 502, 503, 504):
        raise RetryAfter.from_response(response)  # transient
    response.raise_for_status()  # any other HTTP error is permanent: a dead letter


if __name__ == "__main__":
    logging.basicConfig(level=logging.INFO)
    logging.getLogger("httpx").setLevel(logging.WARNING)
    with LinearConsumer(
        {"bootstrap.servers": "localhost:9092", "group.id": "billing"},
        ["orders"],
        strategy=Strategy([1, 2, 5, {"every": "30s", "times": 20}]),
        transient=httpx.TransportError,
        dead_letters="orders.dlq",
    ) as consumer:
        consumer.run(charge)  # until Ctrl-C, SIGTERM or consumer.stop()
