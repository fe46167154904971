"""The routes of messages that wait."""

from http import HTTPStatus
from typing import Annotated

from fastapi import APIRouter, Depends, Path, Query

from linear_retry.scheduler.changes import MOST_COUNTED, MOST_IDS, Changes, Reason
from linear_retry.scheduler.http import models as m
from linear_retry.scheduler.http.models import MessagePage, MessageQuery, next_of
from linear_retry.store import messages
from linear_retry.store.database import Database
from linear_retry.store.listing import messages as listing
from linear_retry.web.security.authentication import Actor, RefusedError
from linear_retry.web.security.guard import actor_of

By = Annotated[Actor, Depends(actor_of)]
RecordId = Annotated[m.Id, Path()]


def routes(database: Database, changes: Changes) -> APIRouter:
    """Returns the routes of `/messages`."""
    router = APIRouter(prefix="/api/v1/messages", tags=["messages"])
    _add_reading(router, database)
    _add_changes(router, changes)
    return router


def _add_reading(router: APIRouter, database: Database) -> None:
    @router.get("")
    def list_messages(query: Annotated[MessagePage, Query()], by: By) -> m.Messages:
        """Lists messages, those that are due first at the beginning."""
        query.check(by)
        with database.reading() as connection:
            found = listing.page(
                database, connection, query.filter(), limit=query.limit, after=query.place()
            )
        items = [m.ListedMessage(**m.listed(each, keys=by.sees_payloads)) for each in found]
        return m.Messages(messages=items, next=next_of([each.place for each in found], query.limit))

    @router.get("/selection")
    def select_messages(query: Annotated[MessageQuery, Query()], by: By) -> m.Selection:
        """Counts messages and names them by id, for a change: nothing is changed yet."""
        query.check(by)
        wanted = query.filter()
        with database.reading() as connection:
            ids = listing.ids(database, connection, wanted, limit=MOST_IDS)
            count = listing.count(database, connection, wanted, limit=MOST_COUNTED)
            return m.Selection(count=count, ids=ids)

    @router.get("/{message_id}")
    def get_message(message_id: RecordId, by: By) -> m.WholeMessage:
        """Returns one message; its payload only to an operator."""
        with database.reading() as connection:
            found = messages.get(connection, message_id)
        if found is None:
            raise _gone(message_id)
        payload = m.payload_of(found) if by.sees_payloads else None
        return m.WholeMessage.model_validate(found).model_copy(update={"payload": payload})


def _add_changes(router: APIRouter, changes: Changes) -> None:
    @router.post("/send-now")
    def send_now(given: m.Chosen, by: By) -> m.Changed:
        """Makes messages due now."""
        return m.changed(given, changes.send_now(given.ids, Reason(by.name, given.comment)))

    @router.post("/postpone")
    def postpone(given: m.Postponed, by: By) -> m.Changed:
        """Makes messages due at another time, later or earlier."""
        why, due = Reason(by.name, given.comment), changes.count_due(given.ids)
        return m.changed(given, changes.postpone(given.ids, given.due_ms, why), due)

    @router.post("/delete")
    def delete_messages(given: m.Chosen, by: By) -> m.Changed:
        """Deletes messages; they are never sent, but for those of a batch that is being sent."""
        why, due = Reason(by.name, given.comment), changes.count_due(given.ids)
        return m.changed(given, changes.delete_messages(given.ids, why), due)

    @router.post("/give-up")
    def give_up(given: m.Chosen, by: By) -> m.Changed:
        """Makes dead letters of messages, but for those of a batch that is being sent."""
        why, due = Reason(by.name, given.comment), changes.count_due(given.ids)
        return m.changed(given, changes.give_up(given.ids, why), due)

    @router.post("/{message_id}/edit")
    def edit(message_id: RecordId, given: m.Edited, by: By) -> m.Forwarded:
        """Gives a message other content, at its place, under a new id."""
        why = Reason(by.name, given.comment)
        retry_id = changes.edit_message(message_id, m.replaced(given), why)
        if retry_id is None:
            raise _gone(message_id)
        return m.Forwarded(retry_id=retry_id)


def _gone(message_id: int) -> RefusedError:
    return RefusedError(
        HTTPStatus.NOT_FOUND, f"message {message_id} does not wait: sent, or deleted"
    )
