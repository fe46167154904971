"""Creates and closes librdkafka's clients, silences their stderr, and formats their errors."""

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from threading import Thread
from typing import Any

from confluent_kafka import KafkaError, KafkaException

from linear_retry.errors import ConfigurationError


@contextmanager
def refused_keys(whose: str = "the") -> Iterator[None]:
    """Turns librdkafka's refusal to create a client into a `ConfigurationError`."""
    try:
        yield
    except (KafkaException, ValueError, TypeError) as error:
        raise ConfigurationError(
            f"librdkafka refuses {whose} configuration: {text_of(error)}; correct the key it names"
        ) from error


def make_client(make: Callable[[dict[str, Any]], Any], config: dict[str, Any]) -> Any:
    """Creates a client with `make`. Raises `ConfigurationError` if librdkafka refuses a key."""
    refuse_lists(config)
    with refused_keys():
        return make(config)


def refuse_lists(config: Mapping[str, Any], where: str = "") -> None:
    """Raises `ConfigurationError` for a value that is a list, or bytes.

    confluent-kafka passes on what `str` makes of it: `['a:9092', 'b:9092']` becomes the names of
    two brokers that nobody ever reaches. `where` precedes the key in the message.
    """
    for key, value in config.items():
        if isinstance(value, list | tuple | set | frozenset | bytes | bytearray):
            # Not the value, which may be a password.
            raise ConfigurationError(
                f"{where}{key}: must be one text, not {type(value).__name__}; write several values "
                'with commas between, such as "a:9092,b:9092"'
            )


def close_in_thread(handle: Any, name: str, wait_s: float = 0.0) -> None:
    """Closes a consumer in its own thread, and waits at most `wait_s` for that.

    With the brokers down it takes long, and for a fenced member it may never return.
    """

    def close() -> None:
        with suppress(KafkaException):
            handle.close()

    thread = Thread(target=close, name=f"linear_retry {name}", daemon=True)
    thread.start()
    thread.join(wait_s)


def free_in_thread(last: list[Any], name: str) -> Thread:
    """Takes the last reference to a producer from `last`, and frees it in a thread of its own.

    librdkafka waits for its own threads, and these for the name service, which may be down too.
    """
    thread = Thread(target=_free, args=[last], name=f"linear_retry {name}", daemon=True)
    thread.start()
    return thread


def _free(last: list[Any]) -> None:
    """Processes every report, to free its memory, and frees the producer in this thread."""
    producer = last.pop()
    while len(producer):
        with suppress(KafkaException):
            producer.flush(1.0)


class _Nobody:
    """A logger that drops librdkafka's lines: even `log_level` 0 lets fatal errors through."""

    def log(self, *_: object) -> None:
        """Drops the line: all that matters is raised."""


QUIET: dict[str, Any] = {"log_level": 0, "logger": _Nobody(), "error_cb": lambda _: None}


def text_of(error: BaseException) -> str:
    """Returns librdkafka's text of an error, or the exception's own."""
    first = error.args[0] if error.args else error
    return first.str() if isinstance(first, KafkaError) else str(first)
