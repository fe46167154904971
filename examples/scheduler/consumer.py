"""Charges orders; those that fail go to a scheduler, which returns them when they are due."""

import logging

import httpx
from confluent_kafka import Message

from linear_retry import LinearConsumer, RetryAfter, Scheduler, Strategy, message_id

payments = httpx.Client(base_url="http://localhost:8000", timeout=10)


def charge(message: Message) -> None:
    """Charges one order, which may have been with the scheduler."""
    once = {"Idempotency-Key": message_id(message)}
    response = payments.post("/charges", content=message.value(), headers=once)
    if response.status_code in (429, 502, 503, 504):
        raise RetryAfter.from_response(response)
    response.raise_for_status()


if __name__ == "__main__":
    logging.basicConfig(level=logging.INFO)
    logging.getLogger("httpx").setLevel(logging.WARNING)
    with LinearConsumer(
        {"bootstrap.servers": "localhost:9092", "group.id": "billing"},
        ["orders"],
        strategy=Strategy([1]),
        transient=httpx.TransportError,
        dead_letters="orders.dlq",
        on_exhausted=Scheduler(
            "orders.billing.scheduled", strategy=Strategy(["10s", "30s", "5m", "1h"], jitter=0.1)
        ),
    ) as consumer:
        consumer.run(charge)
