"""Consumes a Kafka topic in order while a downstream dependency is unavailable."""

import typing

from linear_retry.consumer.dead_letters.recovery import Recovery
from linear_retry.consumer.dead_letters.retry_topics import RetryTopics
from linear_retry.consumer.dead_letters.scheduler import Scheduler
from linear_retry.consumer.dead_letters.settings import DeadLetters
from linear_retry.consumer.linear_consumer import LinearConsumer
from linear_retry.consumer.monitoring.health import Health
from linear_retry.consumer.monitoring.monitor import Counts
from linear_retry.consumer.runners.own_loop import Attempt
from linear_retry.consumer.runners.together.run_together import (
    run_together,
    run_together_async,
)
from linear_retry.errors import (
    BrokerError,
    ConfigurationError,
    DataLossError,
    DeadLetterError,
    ExhaustedError,
    FencedError,
    HandlerTooSlowError,
    LinearRetryError,
    PermanentError,
    RetryLineError,
    StrategyError,
    UsageError,
)
from linear_retry.events import Event, Listener
from linear_retry.journal.journal import Journal
from linear_retry.kafka.consumer.messages import message_id
from linear_retry.retry.batch_error import BatchError
from linear_retry.retry.circuits import CircuitView
from linear_retry.retry.retry_after import RetryAfter
from linear_retry.scope import Scope
from linear_retry.strategy.strategy import Strategy

__all__ = [
    "Attempt",
    "BatchError",
    "BrokerError",
    "CircuitView",
    "ConfigurationError",
    "Counts",
    "DataLossError",
    "DeadLetterError",
    "DeadLetters",
    "Event",
    "ExhaustedError",
    "FencedError",
    "HandlerTooSlowError",
    "Health",
    "Journal",
    "LinearConsumer",
    "LinearRetryError",
    "Listener",
    "PermanentError",
    "Recovery",
    "RetryAfter",
    "RetryLineError",
    "RetryTopics",
    "Scheduler",
    "Scope",
    "Strategy",
    "StrategyError",
    "UsageError",
    "message_id",
    "run_together",
    "run_together_async",
]

if typing.TYPE_CHECKING:
    __version__: str
else:

    def __getattr__(name: str) -> str:
        """`__version__`, the version of the installed distribution, looked up on first use."""
        if name != "__version__":
            raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
        from importlib.metadata import version

        return version("linear-retry")
