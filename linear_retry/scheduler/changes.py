"""What people change in the store: each change with its entry of the audit, or neither."""

from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, replace
from typing import Any

from linear_retry.errors import DeadLetterError
from linear_retry.records.topics.names import is_topic_name
from linear_retry.scheduler.destination_setting import remembered
from linear_retry.scheduler.destinations import Destinations
from linear_retry.scheduler.letters import origin_topic
from linear_retry.store import audit, dead_letters, messages
from linear_retry.store.database import Database
from linear_retry.store.records import StoredDeadLetter, StoredMessage, slot_of

MOST_IDS = 10_000
"""Of one change: it is one transaction, and one entry of the audit."""
MOST_COUNTED = 100_000
"""To count ten million takes longer than the store lets a statement run."""


@dataclass(frozen=True, slots=True)
class Reason:
    """Who changes something, and why: for the audit."""

    actor: str
    comment: str = ""


class Changes:
    """Changes messages that wait and dead letters, by id; each call is one transaction.

    Every method returns how many there were: what is gone was sent, deleted or forwarded since.
    A scheduler's dead letters go where that of their topic may send, or, if it is not known, where
    all may that were started over the store. All methods raise `StoreError`.
    """

    def __init__(self, database: Database) -> None:
        self._database = database

    def send_now(self, ids: Collection[int], reason: Reason) -> int:
        """Makes messages due now; one that is due already keeps its place."""
        return self._made_of_messages(
            "send-now",
            ids,
            reason,
            lambda connection: messages.reschedule(self._database, connection, ids),
        )

    def postpone(self, ids: Collection[int], due_ms: int, reason: Reason) -> int:
        """Makes messages due at `due_ms`, which may also be earlier than now; as for deletion."""
        return self._made_of_messages(
            "postpone",
            ids,
            reason,
            lambda connection: messages.reschedule(self._database, connection, ids, due_ms),
            due_ms=due_ms,
        )

    def count_due(self, ids: Collection[int]) -> int:
        """Returns how many of them may be in a batch under way: to postpone or to delete these
        comes too late, if they are."""
        with self._database.reading() as connection:
            return messages.count_due(self._database, connection, ids)

    def delete_messages(self, ids: Collection[int], reason: Reason) -> int:
        """Deletes messages; they are never sent, unless they are being sent (`count_due`)."""
        return self._made_of_messages(
            "delete-message", ids, reason, lambda connection: messages.remove(connection, ids)
        )

    def give_up(self, ids: Collection[int], reason: Reason) -> int:
        """Makes dead letters of messages, so that the later ones of their lanes are sent."""
        error = f"given up by {reason.actor}{f': {reason.comment}' if reason.comment else ''}"
        return self._made_of_messages(
            "give-up",
            ids,
            reason,
            lambda connection: dead_letters.add_waiting(
                self._database, connection, ids, reason="given-up", error=error
            ),
        )

    def edit_message(self, message_id: int, parts: Mapping[str, Any], reason: Reason) -> str | None:
        """Replaces these fields of a message that waits; it keeps its place.

        Returns its new `retry-id`; None if it is gone. Raises `DeadLetterError` if it may not go to
        its destination.
        """
        with self._database.begin() as connection:
            found = messages.get(connection, message_id)
            if found is None:
                return None
            partition = parts.get("partition", found.partition)
            others = {name: part for name, part in parts.items() if name != "partition"}
            edited = replace(found, **others)
            _check_edited(connection, edited, found.destination)
            edited = replace(edited, slot=slot_of(edited.key, partition))
            messages.end_holds(connection, [message_id])
            retry_id = messages.edit(self._database, connection, edited)
            if retry_id is not None:
                self._note_edit(connection, "edit-message", message_id, parts, retry_id, reason)
            return retry_id

    def delete_dead_letters(self, ids: Collection[int], reason: Reason) -> int:
        """Deletes dead letters."""
        return self._made(
            "delete-dead-letter",
            ids,
            reason,
            lambda connection: dead_letters.remove(connection, ids),
        )

    def forward(self, ids: Collection[int], reason: Reason) -> int:
        """Lets dead letters wait again, due now.

        Raises `DeadLetterError`, and forwards none, if one of them may not go to its destination.
        """

        def checked(connection: Any) -> int:
            _check_all(connection, ids)
            return dead_letters.forward(self._database, connection, ids)

        return self._made("forward", ids, reason, checked)

    def check_forward(self, ids: Collection[int]) -> None:
        """Raises what `forward` would raise; changes nothing."""
        with self._database.reading() as connection:
            _check_all(connection, ids)

    def forward_edited(
        self, letter_id: int, parts: Mapping[str, Any], reason: Reason
    ) -> str | None:
        """Lets a dead letter wait again with these fields replaced, due now.

        Returns its new `retry-id`; None if it is gone. Raises `DeadLetterError` if it may not go to
        its destination.
        """
        with self._database.begin() as connection:
            found = dead_letters.get(connection, letter_id)
            if found is None:
                return None
            edited = replace(found, **parts)
            _check_edited(connection, edited, found.destination)
            retry_id = dead_letters.forward_edited(self._database, connection, edited)
            if retry_id is not None:
                self._note_edit(connection, "edit-and-forward", letter_id, parts, retry_id, reason)
            return retry_id

    def _note_edit(
        self,
        connection: Any,
        action: str,
        record_id: int,
        parts: Mapping[str, Any],
        retry_id: str,
        reason: Reason,
    ) -> None:
        about = {"edited": sorted(parts), "retry_id": retry_id}
        entry = _entry(action, 1, reason, [record_id], **about)
        audit.write(self._database, connection, **entry)

    def _made_of_messages(
        self,
        action: str,
        ids: Collection[int],
        reason: Reason,
        make: Callable[[Any], int],
        **about: object,
    ) -> int:
        """As `_made`; what was held for one of these messages is tried again at once."""

        def ended(connection: Any) -> int:
            messages.end_holds(connection, ids)
            return make(connection)

        return self._made(action, ids, reason, ended, **about)

    def _made(
        self,
        action: str,
        ids: Collection[int],
        reason: Reason,
        make: Callable[[Any], int],
        **about: object,
    ) -> int:
        """Makes a change and its entry of the audit in one transaction; returns its count."""
        with self._database.begin() as connection:
            count = make(connection)
            entry = _entry(action, count, reason, ids, **about)
            audit.write(self._database, connection, **entry)
            return count


def _check_edited(
    connection: Any, edited: StoredMessage | StoredDeadLetter, destination: str
) -> None:
    """Checks where it is sent now; `destination` is where it was to be sent before."""
    if edited.service == "scheduler" or edited.destination != destination:
        _check(remembered(connection), edited.destination, edited.origin)


def _check_all(connection: Any, ids: Collection[int]) -> None:
    known = remembered(connection)
    for service, destination, origin in dead_letters.destinations(connection, ids):
        if service == "scheduler":  # an outbox's go where the application sends them
            _check(known, destination, origin)


def _check(known: Mapping[str, Destinations], destination: str, origin: str | None) -> None:
    refusal = _refusal(known, destination, origin)
    if refusal is not None:
        raise DeadLetterError(
            f"topic {destination!r} may not be sent to: {refusal}; edit the destination, or leave "
            "this one out"
        )


def _refusal(known: Mapping[str, Destinations], destination: str, origin: str | None) -> str | None:
    if not is_topic_name(destination):
        return "this is no name of a topic"
    own = known.get(origin_topic(origin) or "")
    asked = known.values() if own is None else (own,)
    return next((found for each in asked if (found := each.refusal(destination))), None)


def _entry(
    action: str, count: int, reason: Reason, ids: Collection[int], **about: object
) -> dict[str, Any]:
    details = {"ids": sorted(ids), **about}
    if reason.comment:
        details["comment"] = reason.comment
    return {"actor": reason.actor, "action": action, "count": count, "details": details}
