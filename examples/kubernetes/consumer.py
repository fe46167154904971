"""A consumer for Kubernetes: its settings are files, its probes are on port 8080."""

import json
import logging
import os
from pathlib import Path

import httpx
from confluent_kafka import Message

from linear_retry import Journal, LinearConsumer, RetryAfter, Strategy, message_id
from linear_retry.monitoring.health import serve

SETTINGS = Path(os.environ.get("BILLING_SETTINGS", "/etc/billing"))
payments = httpx.Client(base_url=os.environ["PAYMENTS_URL"], timeout=10)


def charge(message: Message) -> None:
    """Charges one order; at most 10 s, which the pod's grace period allows for."""
    once = {"Idempotency-Key": message_id(message)}
    response = payments.post("/charges", content=message.value(), headers=once)
    if response.status_code in (429, 502, 503, 504):
        raise RetryAfter.from_response(response)
    response.raise_for_status()


def main() -> None:
    """Consumes until the pod gets SIGTERM."""
    consumer = LinearConsumer(
        json.loads((SETTINGS / "kafka.json").read_text()),
        ["orders"],
        strategy=Strategy.load(SETTINGS / "strategy.json"),
        transient=httpx.TransportError,
        dead_letters="orders.dlq",
        listeners=[Journal()],
        close_timeout_s=10,
    )
    # All addresses of the pod: by default only the pod itself would be answered.
    with consumer, serve(consumer, 8080, "0.0.0.0"):
        consumer.run(charge)


if __name__ == "__main__":
    logging.basicConfig(level=logging.INFO)
    logging.getLogger("httpx").setLevel(logging.WARNING)
    main()
