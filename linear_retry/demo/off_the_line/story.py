"""The story of the demo: which orders fail, for how long, and when they are tried again."""

import math

from linear_retry.consumer.dead_letters.retry_topics import RetryTopics
from linear_retry.consumer.dead_letters.scheduler import Scheduler
from linear_retry.strategy.strategy import Strategy

DELAYS = {"1s": "5m", "6s": "30m", "12s": "1h"}
"""The delays, and what they stand for: 300 times as long."""
SEQUENCE = ("1s", "1s", "6s", "6s", "6s", "12s")
DELAYS_MS = Strategy(SEQUENCE).delays_ms
BANK_BACK_S = 16.0
_OF_ITS_CUSTOMERS = tuple(f"order-{number:03d}" for number in range(7, 400, 20))
NEVER_PAID = frozenset({"order-005", "order-010"})
BANK_DOWN_FOR = dict.fromkeys(_OF_ITS_CUSTOMERS, BANK_BACK_S) | dict.fromkeys(NEVER_PAID, math.inf)
LATENCY_S = 0.075
"""Of a payment: the line is busy until the last retries."""


def retries_of(topic: str) -> RetryTopics:
    """The retry topics of a topic. No limit: many failures in a row belong to the story."""
    return RetryTopics(f"{topic}.retry", strategy=SEQUENCE, limit=None)


def scheduler_of(topic: str) -> Scheduler:
    """The scheduler of a topic; without a limit too."""
    return Scheduler(f"{topic}.scheduled", strategy=SEQUENCE, limit=None)
