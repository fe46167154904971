"""A member in a thread that dies as a killed process does."""

import traceback
from typing import Any

from confluent_kafka import Consumer


class KilledError(BaseException):
    """What a dead member's thread is ended by: no code of the library's may outlive it."""


class Mortal:
    """The life of one member, whose client is made by `consumer`.

    After `kill` every call of its client raises, so nothing is sought, stored, committed or left;
    the handle is dropped without a goodbye, which ends its heartbeats and closes its connections:
    all that the brokers see of a process that was killed.
    """

    def __init__(self) -> None:
        self.killed = False
        self.errors: list[KilledError] = []

    def kill(self) -> None:
        self.killed = True

    def consumer(self, config: dict[str, Any]) -> Any:
        """For `Outside(consumer=...)`."""
        return _Handle(self, Consumer(config))


class _Handle:
    def __init__(self, life: Mortal, consumer: Consumer) -> None:
        self._life = life
        self._consumer: Consumer | None = consumer

    def __getattr__(self, name: str) -> Any:
        if self._life.killed:
            self._life.errors.append(KilledError())
            raise self._life.errors[-1]
        return getattr(self._consumer, name)

    def close(self) -> None:
        if self._consumer is not None and not self._life.killed:
            self._consumer.close()
        self._consumer = None
        # A callback has the consumer among its arguments: as long as the traceback shows them, a
        # dead member's heart would beat on.
        for error in self._life.errors:
            traceback.clear_frames(error.__traceback__)
