"""An inbox that only says where partitions start, for members whose handlers know of none."""

from collections.abc import Mapping, Sequence
from typing import Any

from linear_retry.consumer.partitions.offsets import StartPositions
from linear_retry.consumer.settings.inbox import AsksBrokers
from linear_retry.kafka import Message
from linear_retry.scope import Partition


class StartsAt:
    """Answers what `ask` does, and keeps nothing."""

    def __init__(self, ask: StartPositions) -> None:
        self._ask = ask

    def claim(
        self, _: AsksBrokers, partitions: Sequence[Partition]
    ) -> Mapping[Partition, int | None]:
        """Where these start."""
        return self._ask(partitions)

    def starts(self, partition: Partition, offset: int, *, is_another_log: bool) -> None:
        """Keeps nothing of it."""

    def is_done(self, _: Message) -> bool:
        """Never."""
        return False

    def leave(self, message: Message) -> None:
        """Keeps nothing of it."""

    def passed(self, next_offsets: Mapping[Partition, int], ended: Message | None = None) -> None:
        """Keeps nothing of it."""

    def lost(self, _: Sequence[Partition]) -> Mapping[Partition, str]:
        """None of these."""
        return {}

    def __getattr__(self, name: str) -> Any:
        raise AssertionError(f"{name} is for what runs handlers")
