"""What people change in the store: each change with its entry of the audit, or neither."""

from collections.abc import Collection, Mapping
from dataclasses import dataclass, replace
from typing import Any

from linear_retry.errors import DeadLetterError
from linear_retry.records.topics.names import is_topic_name
from linear_retry.scheduler.destinations import Destinations
from linear_retry.store import audit, dead_letters, messages
from linear_retry.store.database import Database


@dataclass(frozen=True, slots=True)
class Reason:
    """Who changes something, and why: for the audit."""

    actor: str
    comment: str = ""


class Changes:
    """Changes messages that wait and dead letters, by id; each call is one transaction.

    Every method returns how many there were: what is gone was sent, deleted or forwarded since.
    Without `destinations`, dead letters may go to every topic. All methods raise `StoreError`.
    """

    def __init__(self, database: Database, destinations: Destinations | None = None) -> None:
        self._database = database
        self._destinations = destinations

    def send_now(self, ids: Collection[int], reason: Reason) -> int:
        """Makes messages due now."""
        with self._database.begin() as connection:
            count = messages.reschedule(self._database, connection, ids)
            entry = _entry("send-now", count, reason, ids)
            audit.write(self._database, connection, **entry)
            return count

    def postpone(self, ids: Collection[int], due_ms: int, reason: Reason) -> int:
        """Makes messages due at `due_ms`, which may also be earlier than now."""
        with self._database.begin() as connection:
            count = messages.reschedule(self._database, connection, ids, due_ms)
            entry = _entry("postpone", count, reason, ids, due_ms=due_ms)
            audit.write(self._database, connection, **entry)
            return count

    def delete_messages(self, ids: Collection[int], reason: Reason) -> int:
        """Deletes messages; they are never sent."""
        with self._database.begin() as connection:
            count = messages.remove(connection, ids)
            entry = _entry("delete-message", count, reason, ids)
            audit.write(self._database, connection, **entry)
            return count

    def delete_dead_letters(self, ids: Collection[int], reason: Reason) -> int:
        """Deletes dead letters."""
        with self._database.begin() as connection:
            count = dead_letters.remove(connection, ids)
            entry = _entry("delete-dead-letter", count, reason, ids)
            audit.write(self._database, connection, **entry)
            return count

    def forward(self, ids: Collection[int], reason: Reason) -> int:
        """Lets dead letters wait again, due now.

        Raises `DeadLetterError`, and forwards none, if one of them may not go to its destination.
        """
        with self._database.begin() as connection:
            for service, destination in dead_letters.destinations(connection, ids):
                if service == "scheduler":  # an outbox's go where the application sends them
                    self._check(destination)
            count = dead_letters.forward(self._database, connection, ids)
            entry = _entry("forward", count, reason, ids)
            audit.write(self._database, connection, **entry)
            return count

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
            if edited.service == "scheduler" or edited.destination != found.destination:
                self._check(edited.destination)
            retry_id = dead_letters.forward_edited(self._database, connection, edited)
            if retry_id is None:
                return None
            about = {"edited": sorted(parts), "retry_id": retry_id}
            entry = _entry("edit-and-forward", 1, reason, [letter_id], **about)
            audit.write(self._database, connection, **entry)
            return retry_id

    def _check(self, destination: str) -> None:
        refusal = self._refusal(destination)
        if refusal is not None:
            raise DeadLetterError(
                f"a dead letter for {destination!r} cannot be forwarded: {refusal}; edit its "
                "destination, or leave it out"
            )

    def _refusal(self, destination: str) -> str | None:
        if not is_topic_name(destination):
            return "this is no name of a topic"
        return None if self._destinations is None else self._destinations.refusal(destination)


def _entry(
    action: str, count: int, reason: Reason, ids: Collection[int], **about: object
) -> dict[str, Any]:
    details = {"ids": sorted(ids), **about}
    if reason.comment:
        details["comment"] = reason.comment
    return {"actor": reason.actor, "action": action, "count": count, "details": details}
