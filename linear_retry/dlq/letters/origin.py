"""The place that a dead letter's message came from."""

from __future__ import annotations

from typing import NamedTuple

from linear_retry.scope import Place


# Not a frozen dataclass, for the same reason as `Letter`: there are as many.
class Origin(NamedTuple):
    """The place of the first death. None: who wrote the letter did not say; -1: no timestamp."""

    topic: str
    partition: int | None
    offset: int | None
    timestamp_ms: int = -1

    def __str__(self) -> str:
        if self.partition is not None and self.offset is not None:
            return str(Place(self.topic, self.partition, self.offset))
        partition = "" if self.partition is None else f"[{self.partition}]"
        return f"{self.topic}{partition}{'' if self.offset is None else f'@{self.offset}'}"
