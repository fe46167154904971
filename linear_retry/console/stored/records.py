"""Lists what a store holds, and changes it as the scheduler's API and the commands do."""

import secrets
from collections import OrderedDict
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from http import HTTPStatus
from threading import Lock
from typing import Any, Literal, TypeAlias, get_args

from linear_retry.console.stored.forms import FormError, place_text
from linear_retry.dlq import Message
from linear_retry.records.retry_headers import EDITED_FROM, HEADER_NAMES
from linear_retry.records.text import Header
from linear_retry.scheduler.changes import MOST_COUNTED, MOST_IDS, Changes, Reason
from linear_retry.store import dead_letters, messages
from linear_retry.store.database import Database
from linear_retry.store.listing import dead_letters as dead_letter_listing
from linear_retry.store.listing import messages as message_listing
from linear_retry.store.listing import statistics
from linear_retry.store.listing.dead_letters import ListedDeadLetter
from linear_retry.store.listing.filters import DeadLetterFilter, MessageFilter, Place
from linear_retry.store.listing.messages import ListedMessage
from linear_retry.store.listing.statistics import DeadCount, DestinationCount, HeldLane
from linear_retry.store.records import Service, StoredDeadLetter, StoredMessage
from linear_retry.web.security.authentication import RefusedError

Filter: TypeAlias = MessageFilter | DeadLetterFilter
Action: TypeAlias = Literal["send-now", "postpone", "give-up", "delete"]
"""Of a dead letter, `send-now` lets it wait again, due now."""

_PAGE = 100


@dataclass(frozen=True, slots=True)
class Page:
    """Some records, and where the next page begins; None after the last."""

    records: Sequence[ListedMessage] | Sequence[ListedDeadLetter]
    next: str | None


@dataclass(frozen=True, slots=True)
class Chosen:
    """The records of a change, by id. Of more than 10,000, which `count` tells, the first."""

    ids: Sequence[int]
    count: int


@dataclass(frozen=True, slots=True)
class Counts:
    """What the store holds of one service; `dead` has the most frequent errors."""

    waiting: Sequence[DestinationCount]
    held: Sequence[HeldLane]
    dead: Sequence[DeadCount]


class StoredRecords:
    """The messages and dead letters of a store. All methods raise `StoreError`."""

    def __init__(self, database: Database) -> None:
        self._database = database
        self._changes = Changes(database)

    def page(self, wanted: Filter, after: Place | None) -> Page:
        """Returns messages by due time, or dead letters, the latest first."""
        with self._database.reading() as connection:
            place = (self._database, connection)
            records: Sequence[ListedMessage] | Sequence[ListedDeadLetter] = (
                dead_letter_listing.page(*place, wanted, limit=_PAGE, after=after)
                if isinstance(wanted, DeadLetterFilter)
                else message_listing.page(*place, wanted, limit=_PAGE, after=after)
            )
        is_more = len(records) == _PAGE
        return Page(records, place_text(records[-1].place) if is_more else None)

    def chosen(self, wanted: Filter) -> Chosen:
        """Returns all that match, for a change of them."""
        with self._database.reading() as connection:
            place = (self._database, connection)
            if isinstance(wanted, DeadLetterFilter):
                ids = dead_letter_listing.ids(*place, wanted, limit=MOST_IDS)
                count = dead_letter_listing.count(*place, wanted, limit=MOST_COUNTED)
            else:
                ids = message_listing.ids(*place, wanted, limit=MOST_IDS)
                count = message_listing.count(*place, wanted, limit=MOST_COUNTED)
        return Chosen(ids, count)

    def one(self, number: int, *, is_dead: bool) -> StoredMessage | StoredDeadLetter:
        """Returns one with its value. Raises `RefusedError` if it is gone."""
        get = dead_letters.get if is_dead else messages.get
        with self._database.reading() as connection:
            found = get(connection, number)
        if found is None:
            raise _gone(is_dead=is_dead)
        return found

    def counts(self, service: Service) -> Counts:
        """Counts what waits, is on hold, and is dead."""
        with self._database.reading() as connection:
            return Counts(
                statistics.waiting(self._database, connection, service),
                statistics.held(connection, service),
                statistics.dead(connection, service),
            )

    def now_ms(self) -> int:
        """Returns the store's time."""
        with self._database.reading() as connection:
            return self._database.now_ms(connection)

    def change(
        self,
        action: Action,
        ids: Collection[int],
        reason: Reason,
        *,
        is_dead: bool,
        due_ms: int | None = None,
    ) -> int:
        """Makes a change with its entry of the audit; returns how many there still were.

        Raises `DeadLetterError`, and changes nothing, if one may not go to its destination, and
        `FormError` for a change that these records do not have.
        """
        if action == "postpone":
            if is_dead or due_ms is None:
                raise FormError("only a message that waits can be postponed, to a time")
            return self._changes.postpone(ids, due_ms, reason)
        if action == "give-up":
            if is_dead:
                raise FormError("only a message that waits can be given up")
            return self._changes.give_up(ids, reason)
        if action == "delete":
            delete = self._changes.delete_dead_letters if is_dead else self._changes.delete_messages
            return delete(ids, reason)
        send = self._changes.forward if is_dead else self._changes.send_now
        return send(ids, reason)

    def edit(
        self, found: StoredMessage | StoredDeadLetter, message: Message, to: str, reason: Reason
    ) -> str:
        """Lets the message wait in place of what was found; returns its `retry-id`.

        In place of a dead letter it is due now. Raises `RefusedError` if it is gone, and
        `DeadLetterError` if it may not go there.
        """
        is_dead = isinstance(found, StoredDeadLetter)
        edit = self._changes.forward_edited if is_dead else self._changes.edit_message
        retry_id = edit(found.id, _edited(found, message, to), reason)
        if retry_id is None:
            raise _gone(is_dead=is_dead)
        return retry_id


def message_of(found: StoredMessage | StoredDeadLetter) -> Message:
    """Returns what was sent to be stored, without the retry headers."""
    return Message(found.key, found.value, _own(found.headers))


def _edited(found: StoredMessage | StoredDeadLetter, message: Message, to: str) -> dict[str, Any]:
    """The fields that this message and topic differ in."""
    before = message_of(found)
    parts: dict[str, Any] = {
        name: new
        for name, old, new in zip(Message._fields, before, message, strict=True)
        if old != new
    }
    if "headers" in parts:
        own = _own(message.headers)
        parts["headers"] = (*own, *(each for each in found.headers if not _is_own(each)))
    if to != found.destination:
        parts["destination"] = to
    # The partition that was asked for is another topic's, or another key's.
    return parts | ({"partition": None} if {"key", "destination"} & parts.keys() else {})


def _own(headers: Iterable[Header]) -> tuple[Header, ...]:
    return tuple(each for each in headers if _is_own(each))


def _is_own(header: Header) -> bool:
    return header[0] not in HEADER_NAMES and header[0] != EDITED_FROM


def _gone(*, is_dead: bool) -> RefusedError:
    text = (
        "This dead letter is gone: forwarded, or deleted."
        if is_dead
        else "This message waits no more: it was sent, or deleted."
    )
    return RefusedError(HTTPStatus.NOT_FOUND, text)


def action_of(text: str) -> Action:
    """Reads the name of a change. Raises `FormError`."""
    names: Mapping[str, Action] = {name: name for name in get_args(Action)}
    if text not in names:
        raise FormError(f"{text[:40]!r} is no change; choose one of {', '.join(names)}")
    return names[text]


@dataclass(frozen=True, slots=True)
class Outcome:
    """A change: how many records it has changed, and how many it was about."""

    action: Action | Literal["edit"]
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
