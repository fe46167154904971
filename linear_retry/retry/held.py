"""A message that failed, and what is known of its failures."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Generic, TypeVar

from linear_retry.events import WaitReason
from linear_retry.records.dead_letter import DeadLetter
from linear_retry.records.text import brief
from linear_retry.scope import Partition

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Held(Generic[T]):
    """What a circuit waits with: the message of a consumer, or the micro-batch of a stream.

    `epoch` is that of the ownership it was read in: after a revoke, the next owner counts anew.
    `error_text` is the last error in a line, `strategy` the label of the one that its last failure
    went by. `letter` is there once the handler has had its last call: only the sending is tried
    again. `at_limit`: only the limit of dead letters keeps it.
    """

    message: T
    partition: Partition
    offset: int
    epoch: int
    failures: int = 0
    first_failure_ms: int = 0
    last_failure_ms: int = 0
    error: Exception | None = None
    error_text: str = "no error"
    strategy: str = ""
    letter: DeadLetter | None = None
    sends: int = 0
    at_limit: bool = False

    def failed(self, error: Exception, at_ms: int, strategy: str = "") -> Held[T]:
        """The same message with one failure more."""
        return replace(
            self,
            failures=self.failures + 1,
            first_failure_ms=self.first_failure_ms if self.failures else at_ms,
            last_failure_ms=at_ms,
            error=error,
            error_text=brief(error),
            strategy=strategy,
            at_limit=False,
        )

    @property
    def waits_for(self) -> WaitReason:
        """Another attempt, the sending of its letter, or the end of a row of dead letters."""
        if self.letter is not None:
            return "letter"
        return "limit" if self.at_limit else "failed"
