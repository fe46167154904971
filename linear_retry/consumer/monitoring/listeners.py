"""Tells listeners whose they are, and logs what one of them raises."""

from abc import ABC, abstractmethod
from collections.abc import Iterable

from linear_retry.events import Event, Listener
from linear_retry.journal.journal import Journal, JournalContext
from linear_retry.log import log_listener_failure


class BoundListener(ABC):
    """A listener of one consumer, which gets its group as that is made."""

    @abstractmethod
    def bind(self, group_id: str) -> None:
        """Raises `ConfigurationError` where it is another's."""

    @abstractmethod
    def __call__(self, event: Event) -> object:
        """As any listener's."""


def bind_listeners(listeners: Iterable[Listener], context: JournalContext) -> None:
    """Tell those that ask for it whose they are. Raises `ConfigurationError` for another's."""
    for listener in listeners:
        if isinstance(listener, Journal):
            listener.bind(context)
        elif isinstance(listener, BoundListener):
            listener.bind(context.group)


def breaker_listener_failed() -> None:
    """One of a pybreaker's, which is the user's too."""
    log_listener_failure("of a pybreaker")
