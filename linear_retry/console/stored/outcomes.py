"""What came of the latest changes of a store, for the page that follows each."""

import secrets
from collections import OrderedDict
from dataclasses import dataclass
from threading import Lock

from linear_retry.console.stored.records import Action


@dataclass(frozen=True, slots=True)
class Outcome:
    """A change: how many records it has changed, and how many it was about."""

    action: Action
    changed: int
    asked: int
    due_ms: int | None = None
    """Until when a message is postponed."""
    retry_id: str | None = None
    """The new id of one that was edited."""


class Outcomes:
    """The latest outcomes, each by a token that nobody can guess.

    In the address itself a link from anywhere could say what never was done.
    """

    def __init__(self, most: int = 1_000) -> None:
        self._most = most
        self._kept: OrderedDict[str, Outcome] = OrderedDict()
        self._lock = Lock()

    def keep(self, outcome: Outcome) -> str:
        """Returns the token of this outcome; forgets the oldest if there are too many."""
        token = secrets.token_urlsafe(12)
        with self._lock:
            self._kept[token] = outcome
            if len(self._kept) > self._most:
                self._kept.popitem(last=False)
        return token

    def get(self, token: str) -> Outcome | None:
        """Returns the outcome with this token; None if it is not known."""
        return self._kept.get(token)
