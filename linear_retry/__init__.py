"""Consumes a Kafka topic in order while a downstream dependency is unavailable."""

import importlib
import typing

if typing.TYPE_CHECKING:
    from linear_retry.consumer.linear_consumer import LinearConsumer
    from linear_retry.consumer.operations.health import Health
    from linear_retry.consumer.operations.lag import Backlog
    from linear_retry.consumer.operations.monitor import Counts
    from linear_retry.consumer.runners.own_loop import Attempt
    from linear_retry.consumer.runners.together.run_together import (
        run_together,
        run_together_async,
    )
    from linear_retry.consumer.settings.by_key import ByKey
    from linear_retry.consumer.settings.dead_letters import DeadLetters
    from linear_retry.consumer.settings.line import Recovery
    from linear_retry.consumer.settings.retry_topics import RetryTopics
    from linear_retry.consumer.settings.rules import Rule
    from linear_retry.consumer.settings.scheduler import Scheduler
    from linear_retry.consumer.settings.strategy_file import StrategyFile
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
    from linear_retry.retry.circuits import CircuitView
    from linear_retry.retry.current_attempt import AttemptInfo, current_attempt
    from linear_retry.retry.failed_attempt import BatchError
    from linear_retry.retry.retry_after import RetryAfter
    from linear_retry.scope import Scope
    from linear_retry.strategy.strategy import Strategy

    __version__: str

__all__ = [
    "Attempt",
    "AttemptInfo",
    "Backlog",
    "BatchError",
    "BrokerError",
    "ByKey",
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
    "Rule",
    "Scheduler",
    "Scope",
    "Strategy",
    "StrategyError",
    "StrategyFile",
    "UsageError",
    "current_attempt",
    "message_id",
    "run_together",
    "run_together_async",
]

_HOMES = {
    "Attempt": "consumer.runners.own_loop",
    "AttemptInfo": "retry.current_attempt",
    "Backlog": "consumer.operations.lag",
    "BatchError": "retry.failed_attempt",
    "BrokerError": "errors",
    "ByKey": "consumer.settings.by_key",
    "CircuitView": "retry.circuits",
    "ConfigurationError": "errors",
    "Counts": "consumer.operations.monitor",
    "DataLossError": "errors",
    "DeadLetterError": "errors",
    "DeadLetters": "consumer.settings.dead_letters",
    "Event": "events",
    "ExhaustedError": "errors",
    "FencedError": "errors",
    "HandlerTooSlowError": "errors",
    "Health": "consumer.operations.health",
    "Journal": "journal.journal",
    "LinearConsumer": "consumer.linear_consumer",
    "LinearRetryError": "errors",
    "Listener": "events",
    "PermanentError": "errors",
    "Recovery": "consumer.settings.line",
    "RetryAfter": "retry.retry_after",
    "RetryLineError": "errors",
    "RetryTopics": "consumer.settings.retry_topics",
    "Rule": "consumer.settings.rules",
    "Scheduler": "consumer.settings.scheduler",
    "Scope": "scope",
    "Strategy": "strategy.strategy",
    "StrategyError": "errors",
    "StrategyFile": "consumer.settings.strategy_file",
    "UsageError": "errors",
    "current_attempt": "retry.current_attempt",
    "message_id": "kafka.consumer.messages",
    "run_together": "consumer.runners.together.run_together",
    "run_together_async": "consumer.runners.together.run_together",
}
"""The module of each public name: what uses one of them, as the CLI does, need not load all."""


if not typing.TYPE_CHECKING:  # a checker would take any name for one of ours

    def __getattr__(name: str) -> object:
        """A public name, loaded on first use (PEP 562); `__version__` is the installed one's."""
        if name == "__version__":
            from importlib.metadata import version

            return version("linear-retry")
        if name not in _HOMES:
            raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
        found = getattr(importlib.import_module(f"linear_retry.{_HOMES[name]}"), name)
        globals()[name] = found
        return found


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
