"""What a consumer asks of an inbox, whose places lie in the application's own database."""

from collections.abc import Callable, Collection, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import Any, Protocol, runtime_checkable

from linear_retry.consumer.settings.by_key import Order
from linear_retry.errors import StoreError
from linear_retry.kafka import Message
from linear_retry.retry.clock import Clock
from linear_retry.scope import Partition


class PlaceLostError(StoreError):
    """Another member has the place of this partition: nothing of it may be handled here."""


@dataclass(frozen=True, slots=True)
class AsksBrokers:
    """What an inbox asks the brokers: each topic's id, and whether a message is done.

    That is so by what the group has committed, and by the note beside it, which goes by the key of
    the message's lane. Both raise an error of Kafka's without an answer.
    """

    topic_ids: Callable[[Collection[str]], Mapping[str, str]]
    has_done: Callable[[Partition, int, str], bool]


class InboxPlaces(Protocol):
    """The places of one consumer's partitions, and the handlers that write them."""

    def check(self) -> None:
        """Raises `ConfigurationError`, `UsageError` and `StoreError` for what could not work."""

    def close(self) -> None:
        """Closes its own connections."""

    async def check_async(self) -> None:
        """As `check`, for `run_async`."""

    def claim(
        self, brokers: AsksBrokers, partitions: Sequence[Partition]
    ) -> Mapping[Partition, int | None]:
        """Where these start: `StartPositions`. Nobody else may write their places afterwards."""

    def starts(self, partition: Partition, offset: int, *, is_another_log: bool) -> None:
        """Notes that reading starts at `offset`, perhaps of another log than what is stored."""

    def is_done(self, message: Message) -> bool:
        """Whether it is done, as far as is known without asking the database."""

    def leave(self, message: Message) -> None:
        """Notes that its letter is about to be sent. Raises `StoreError`, `PlaceLostError`."""

    def passed(self, next_offsets: Mapping[Partition, int], ended: Message | None = None) -> None:
        """Stores what is done without an effect, as `ended` is, as far as that is possible now."""

    def lost(self, partitions: Sequence[Partition]) -> Mapping[Partition, str]:
        """Those whose places another member has, or an older copy of the database; and why."""

    def transaction(self, message: Message) -> AbstractContextManager[Any]:
        """Begins a transaction that notes this message as done; None if it was done before.

        The end of the block commits it, and an exception rolls it back. Raises `StoreError` and
        `PlaceLostError`.
        """

    def handling(self, handler: Callable[..., object]) -> Callable[[Message], object]:
        """Returns a handler that gives each message and its open transaction to `handler`."""

    def handling_batches(self, handler: Callable[..., object]) -> Callable[[list[Message]], object]:
        """Returns a handler that gives each batch and its open transaction to `handler`."""

    def handling_async(self, handler: Callable[..., Any]) -> Callable[[Message], Any]:
        """Returns `handling` for `run_async`."""

    def rehearsing(self, handler: Callable[..., Any]) -> Callable[[Any], Any]:
        """Returns a handler of either kind whose effects are taken back, and no place written."""


@runtime_checkable
class Inbox(Protocol):
    """What the user gives a consumer (`linear_retry.inbox.Inbox`)."""

    has_one_writer: bool
    """Whether the database has one writer at a time, as SQLite does."""
    reads_all: bool
    """Whether messages are only kept: one that came back for another group is, too."""

    def places(
        self,
        group_id: str,
        life_group_id: str,
        owner: str,
        clock: Clock,
        order: Order,
    ) -> InboxPlaces:
        """Returns the places of a consumer of this group, whose name is `owner`.

        Messages that come back are those of `life_group_id`. They are handled in `order`.
        """
