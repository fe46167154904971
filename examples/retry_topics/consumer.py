"""Charges orders; those that fail leave the line for retry topics, and come back later.

`python examples/retry_topics/consumer.py [live|retry]` runs one line, or both without an argument.
"""

import logging
import sys
from pathlib import Path

import httpx
from confluent_kafka import Message

from linear_retry import (
    LinearConsumer,
    RetryAfter,
    RetryTopics,
    Strategy,
    message_id,
    run_together,
)

CONFIG = {"bootstrap.servers": "localhost:9092", "group.id": "billing"}
RETRIES = RetryTopics(
    "orders.billing.retry", strategy=Strategy.load(Path(__file__).with_name("strategy.json"))
)

payments = httpx.Client(base_url="http://localhost:8000", timeout=10)


def charge(message: Message) -> None:
    """Charges one order, on either line."""
    once = {"Idempotency-Key": message_id(message)}
    response = payments.post("/charges", content=message.value(), headers=once)
    if response.status_code in (429, 502, 503, 504):
        raise RetryAfter.from_response(response)
    response.raise_for_status()


def live_line() -> LinearConsumer:
    """Tries an order again after 1 s, then lets it go."""
    return LinearConsumer(
        CONFIG,
        ["orders"],
        strategy=Strategy([1]),
        transient=httpx.TransportError,
        dead_letters="orders.dlq",
        on_exhausted=RETRIES,
    )


def retry_line() -> LinearConsumer:
    """Reads the retry topics, each order when its time has come."""
    return LinearConsumer(
        CONFIG,
        RETRIES,
        strategy=Strategy([]),
        transient=httpx.TransportError,
        dead_letters="orders.dlq",
    )


def main(line: str) -> None:
    """Until Ctrl-C or SIGTERM."""
    if line == "both":
        run_together(live_line(), retry_line, charge)
        return
    with live_line() if line == "live" else retry_line() as consumer:
        consumer.run(charge)


if __name__ == "__main__":
    logging.basicConfig(level=logging.INFO)
    logging.getLogger("httpx").setLevel(logging.WARNING)
    main(sys.argv[1] if len(sys.argv) > 1 else "both")
