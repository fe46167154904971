"""A confluent_kafka `Consumer` that records its calls, with given answers."""

from collections.abc import Callable, Mapping
from typing import Any

from confluent_kafka import TopicPartition


class RecordingConsumer:
    """Notes every call. It answers as `answers` says: a value, an exception, or a function.

    It behaves like nothing: for how the real one behaves there is `tests.fake`.
    """

    def __init__(self, config: Mapping[str, Any]) -> None:
        self.config = dict(config)
        self.calls: list[tuple[str, Any]] = []
        self.answers: dict[str, Any] = {}

    def __getattr__(self, name: str) -> Callable[..., Any]:
        def call(*arguments: Any, **named: Any) -> Any:
            self.calls.append((name, _plain(arguments, named)))
            answer = self.answers.get(name)
            if isinstance(answer, BaseException):
                raise answer
            return answer(*arguments, **named) if callable(answer) else answer

        return call

    @property
    def names(self) -> list[str]:
        """The calls by name, in order."""
        return [name for name, _ in self.calls]


def _plain(arguments: tuple[Any, ...], named: dict[str, Any]) -> Any:
    values = [_value(item) for item in (*arguments, *named.values())]
    return values[0] if len(values) == 1 else tuple(values)


def _value(item: Any) -> Any:
    match item:
        case TopicPartition():
            return item.topic, item.partition, item.offset
        case list():
            return [_value(one) for one in item]
        case _:
            return item
