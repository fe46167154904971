"""The routes of dead letters."""

from http import HTTPStatus
from typing import Annotated

from fastapi import APIRouter, Query

from linear_retry.scheduler.changes import MOST_COUNTED, MOST_IDS, Changes, Reason
from linear_retry.scheduler.http import models as m
from linear_retry.scheduler.http.message_routes import By, RecordId
from linear_retry.scheduler.http.models import DeadLetterPage, DeadLetterQuery, next_of
from linear_retry.store import dead_letters
from linear_retry.store.database import Database
from linear_retry.store.listing import dead_letters as listing
from linear_retry.web.security.authentication import RefusedError


def routes(database: Database, changes: Changes) -> APIRouter:
    """Returns the routes of `/dead-letters`."""
    router = APIRouter(prefix="/api/v1/dead-letters", tags=["dead letters"])
    _add_reading(router, database)
    _add_changes(router, changes)
    return router


def _add_reading(router: APIRouter, database: Database) -> None:
    @router.get("")
    def list_dead_letters(query: Annotated[DeadLetterPage, Query()], by: By) -> m.DeadLetters:
        """Lists dead letters, the latest first."""
        query.check(by)
        with database.reading() as connection:
            found = listing.page(
                database, connection, query.filter(), limit=query.limit, after=query.place()
            )
        items = [m.ListedDeadLetter(**m.listed(each, keys=by.sees_payloads)) for each in found]
        return m.DeadLetters(
            dead_letters=items, next=next_of([each.place for each in found], query.limit)
        )

    @router.get("/selection")
    def select_dead_letters(query: Annotated[DeadLetterQuery, Query()], by: By) -> m.Selection:
        """Counts dead letters and names them by id, for a change: nothing is changed yet."""
        query.check(by)
        wanted = query.filter()
        with database.reading() as connection:
            ids = listing.ids(database, connection, wanted, limit=MOST_IDS)
            count = listing.count(database, connection, wanted, limit=MOST_COUNTED)
            return m.Selection(count=count, ids=ids)

    @router.get("/{letter_id}")
    def get_dead_letter(letter_id: RecordId, by: By) -> m.WholeDeadLetter:
        """Returns one dead letter; its payload only to an operator."""
        with database.reading() as connection:
            found = dead_letters.get(connection, letter_id)
        if found is None:
            raise _gone(letter_id)
        payload = m.payload_of(found) if by.sees_payloads else None
        return m.WholeDeadLetter.model_validate(found).model_copy(update={"payload": payload})


def _add_changes(router: APIRouter, changes: Changes) -> None:
    @router.post("/forward")
    def forward(given: m.Chosen, by: By) -> m.Changed:
        """Lets dead letters wait again, due now; all of them, or none."""
        return m.changed(given, changes.forward(given.ids, Reason(by.name, given.comment)))

    @router.post("/delete")
    def delete_dead_letters(given: m.Chosen, by: By) -> m.Changed:
        """Deletes dead letters."""
        why = Reason(by.name, given.comment)
        return m.changed(given, changes.delete_dead_letters(given.ids, why))

    @router.post("/{letter_id}/edit-and-forward")
    def edit_and_forward(letter_id: RecordId, given: m.Edited, by: By) -> m.Forwarded:
        """Lets a dead letter wait again with other content, due now, under a new id."""
        why = Reason(by.name, given.comment)
        retry_id = changes.forward_edited(letter_id, m.replaced(given), why)
        if retry_id is None:
            raise _gone(letter_id)
        return m.Forwarded(retry_id=retry_id)


def _gone(letter_id: int) -> RefusedError:
    return RefusedError(
        HTTPStatus.NOT_FOUND, f"dead letter {letter_id} is gone: forwarded, or deleted"
    )
