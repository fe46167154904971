"""What a stream offers for each micro-batch: to attempt it again, to wait, to read its rows."""

from collections.abc import Iterator
from typing import NoReturn, Protocol

from linear_retry.records.record import Record
from linear_retry.scope import Partition


class MicroBatch(Protocol):
    """One micro-batch in the hands of its stream, which goes no further meanwhile."""

    @property
    def place(self) -> Partition:
        """The name of its stream, and 0: what events have for topic and partition."""

    @property
    def number(self) -> int:
        """Its number in that stream: what events have for the offset."""

    @property
    def run(self) -> str:
        """Which start of the stream it is of."""

    def attempt(self) -> object:
        """Have it handled. Returns and raises what the handler does."""

    def wait(self, seconds: float) -> None:
        """Never shorter. Where the stream is stopped meanwhile, `end` at once."""

    def is_stopping(self) -> bool:
        """Whether the stream is being stopped: what fails then tells nothing."""

    def end(self) -> NoReturn:
        """Of a stream that is being stopped: raises what that takes for its end."""

    def records(self) -> Iterator[Record]:
        """Its rows as they came from Kafka, each partition in order, few at a time."""
