"""Charges orders in a loop of your own: each attempt comes as a value."""

import logging
import signal

import httpx
from confluent_kafka import Message

from linear_retry import LinearConsumer, Strategy, message_id

log = logging.getLogger("billing")
payments = httpx.Client(base_url="http://localhost:8000", timeout=10)


def charge(message: Message) -> httpx.Response:
    """Asks the payment service to charge one order."""
    once = {"Idempotency-Key": message_id(message)}
    return payments.post("/charges", content=message.value(), headers=once)


if __name__ == "__main__":
    logging.basicConfig(level=logging.INFO)
    logging.getLogger("httpx").setLevel(logging.WARNING)
    with LinearConsumer(
        {"bootstrap.servers": "localhost:9092", "group.id": "billing-loop"},
        ["orders"],
        strategy=Strategy([1, 2, 5, {"every": "30s", "times": 20}]),
        transient=(httpx.TransportError, ConnectionError),
        dead_letters="orders.dlq",
    ) as consumer:
        # `run` handles signals itself; in a loop of your own they are yours.
        for number in (signal.SIGINT, signal.SIGTERM):
            signal.signal(number, lambda *_: consumer.stop())
        for attempt in consumer:
            with attempt as message:  # the loop's last statement: leaving it decides
                if attempt.number > 1:
                    log.info("attempt %d of offset %s", attempt.number, message.offset())
                response = charge(message)
                if response.status_code == 503:
                    attempt.fail(ConnectionError("busy"))  # fails without raising
                else:
                    response.raise_for_status()
