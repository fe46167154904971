"""Pays transfers in the order of each account; while a bank is closed, its accounts wait."""

import logging

import httpx
from confluent_kafka import Message

from linear_retry import Journal, LinearConsumer, RetryAfter, Strategy

WORKERS = 16

# Workers share it: httpx's client is made for that.
banks = httpx.Client(
    base_url="http://localhost:8000",
    timeout=10,
    limits=httpx.Limits(max_connections=WORKERS, max_keepalive_connections=WORKERS),
)


def pay(message: Message) -> None:
    """Pays one transfer. Called on one of the workers, for each account by one at a time."""
    once = f"{message.topic()}/{message.partition()}/{message.offset()}"
    response = banks.post("/transfers", content=message.value(), headers={"Idempotency-Key": once})
    if response.status_code == 503:
        raise RetryAfter.from_response(response)  # this bank is closed
    response.raise_for_status()


if __name__ == "__main__":
    logging.basicConfig(level=logging.INFO)
    logging.getLogger("httpx").setLevel(logging.WARNING)
    with LinearConsumer(
        {"bootstrap.servers": "localhost:9092", "group.id": "payments"},
        ["orders"],
        strategy=Strategy([1, 2, 5]),
        transient=httpx.TransportError,
        dead_letters="orders.dlq",
        on_exhausted="repeat",  # for as long as the bank is closed
        scope="key",
        concurrency=WORKERS,
        listeners=[Journal()],
    ) as consumer:
        consumer.run(pay)  # until Ctrl-C, SIGTERM or consumer.stop()
