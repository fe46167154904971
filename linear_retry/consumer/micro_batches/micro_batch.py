"""What a stream's micro-batch must be able to do, whatever streams it."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import NoReturn, Protocol

from linear_retry.records.record import Record
from linear_retry.scope import Partition


class MicroBatch(Protocol):
    """One micro-batch of a stream, which does not continue until it is finished."""

    @property
    def place(self) -> Partition:
        """The stream's name and 0: the topic and partition of its events."""

    @property
    def number(self) -> int:
        """Its number in the stream: the offset of its events."""

    @property
    def run(self) -> str:
        """The id of the stream's run that it belongs to."""

    def attempt(self) -> object:
        """Calls the handler. Returns and raises what the handler does."""

    def halves(self) -> Sequence[MicroBatch]:
        """Its two halves, in the order of its rows; none if it is one row, or not to be halved."""

    def size(self) -> int:
        """The number of its rows."""

    def recall(self) -> tuple[int, int] | None:
        """How often it had failed when its stream ended, and when first (UTC ms); None if never."""

    def note(self, failures: int, first_failure_ms: int) -> None:
        """Keeps how often it has failed, and when first, for the next run of its stream."""

    def wait(self, seconds: float) -> None:
        """Waits at least that long. If the stream is stopped meanwhile, calls `end` at once."""

    def is_stopping(self) -> bool:
        """Whether the stream is being stopped: failures are then meaningless."""

    def end(self) -> NoReturn:
        """Raises what a stream that is being stopped takes for its end."""

    def choose(self, rows: object) -> None:
        """Makes `records` yield only these rows, until the next attempt.

        Raises `UsageError` if there are none, or they are not in it.
        """

    def records(self) -> Iterator[Record]:
        """Yields its rows as read from Kafka, in order per partition, few in memory at a time."""
