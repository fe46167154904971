"""Makes and closes librdkafka's clients, keeps their lines off stderr, gives errors as text."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from threading import Thread
from typing import Any

from confluent_kafka import KafkaError, KafkaException

from linear_retry.errors import ConfigurationError


@contextmanager
def refused_keys(whose: str = "the") -> Iterator[None]:
    """What librdkafka refuses as a client is made is a `ConfigurationError`."""
    try:
        yield
    except (KafkaException, ValueError, TypeError) as error:
        raise ConfigurationError(
            f"librdkafka refuses {whose} configuration: {text_of(error)}; correct the key it names"
        ) from error


def make_client(make: Callable[[dict[str, Any]], Any], config: dict[str, Any]) -> Any:
    """The client that `make` makes. Raises `ConfigurationError` where librdkafka refuses a key."""
    with refused_keys():
        return make(config)


def close_in_thread(handle: Any, name: str, wait_s: float = 0.0) -> None:
    """Close a consumer in a thread of its own, and wait for that at most so long.

    With the brokers down it takes its time, and where a member was fenced it may never return.
    """

    def close() -> None:
        with suppress(KafkaException):
            handle.close()

    thread = Thread(target=close, name=f"linear_retry {name}", daemon=True)
    thread.start()
    thread.join(wait_s)


class _Nobody:
    """Takes what librdkafka would write. `log_level` 0 still lets its fatal errors through."""

    def log(self, *_: object) -> None:
        """All that matters is raised."""


QUIET: dict[str, Any] = {"log_level": 0, "logger": _Nobody(), "error_cb": lambda _: None}


def text_of(error: BaseException) -> str:
    """What librdkafka says of an error, whatever it raised."""
    first = error.args[0] if error.args else error
    return first.str() if isinstance(first, KafkaError) else str(first)
