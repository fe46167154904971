"""Changes the store's messages and dead letters, as people ask for it."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import typer

from linear_retry.cli.output.exit_codes import NEGATIVE, fail
from linear_retry.cli.output.progress import ProgressBar
from linear_retry.cli.output.rows import plural, write_json
from linear_retry.cli.store.options import ChangeOptions, Selection
from linear_retry.records.printable import moment
from linear_retry.scheduler.changes import MOST_COUNTED, MOST_IDS, Changes, Reason
from linear_retry.scheduler.drain import drain as drain_store
from linear_retry.store import audit
from linear_retry.store.database import Database
from linear_retry.store.listing import dead_letters, messages
from linear_retry.store.listing.filters import DeadLetterFilter, MessageFilter
from linear_retry.store.migrations import migrate as migrate_store
from linear_retry.store.records import Service


@dataclass(frozen=True, slots=True)
class Until:
    """The time that messages are to wait for: a moment, or a delay from the store's now."""

    at_ms: int | None
    delay_ms: int | None

    def due_ms(self, database: Database) -> int:
        """The moment, by the store's clock."""
        if self.at_ms is not None:
            return self.at_ms
        with database.reading() as connection:
            return database.now_ms(connection) + (self.delay_ms or 0)


def migrate(database: Database, *, as_json: bool) -> None:
    """Creates or upgrades the tables, and prints from which version to which."""
    done = migrate_store(database)
    if as_json:
        indexed = done.is_error_search_indexed
        write_json([{"before": done.before, "after": done.after, "error_search": indexed}])
        return
    if done.before == done.after:
        typer.echo(f"store {database} is of version {done.after} already")
    else:
        typer.echo(f"store {database}: from {done.before or 'no tables'} to version {done.after}")
    if not done.is_error_search_indexed:
        typer.echo(
            "a search in the text of errors reads every dead letter: the extension pg_trgm is not "
            "there, and this user may not create it; create it and migrate again",
            err=True,
        )


def drain(
    database: Database,
    service: Service,
    config: Mapping[str, Any],
    topic: str,
    options: ChangeOptions,
) -> None:
    """Sends everything that waits to a dead-letter topic."""
    if not options.yes:
        with database.reading() as connection:
            waiting = MessageFilter(service=service)
            count = messages.count(database, connection, waiting, limit=MOST_COUNTED)
        typer.echo(f"would send to {topic}: {_counted(count, 'message')}; do it with --yes")
        _say_dead(database, service)
        return
    with ProgressBar(f"sending to {topic}") as bar:
        count = drain_store(database, config, service, topic, lambda done: bar(done, done))
    with database.begin() as connection:
        details = {"topic": topic, "comment": options.why}
        audit.write(
            database,
            connection,
            actor=options.actor,
            action="drain",
            count=count,
            details=details,
        )
    typer.echo(f"sent to {topic}: {plural(count, 'message')}")
    _say_dead(database, service)


def _say_dead(database: Database, service: Service) -> None:
    """Says what a drained store still has."""
    with database.reading() as connection:
        wanted = DeadLetterFilter(service=service)
        count = dead_letters.count(database, connection, wanted, limit=MOST_COUNTED)
    if count:
        typer.echo(f"not sent: {_counted(count, 'dead letter')} in the store; see list --dead")


def _counted(count: int, one: str) -> str:
    return f"{count} or more {one}s" if count == MOST_COUNTED else plural(count, one)


@dataclass(frozen=True, slots=True)
class Wanted:
    """The messages or dead letters to change, by their numbers or by a selection."""

    database: Database
    service: Service
    selection: Selection
    numbers: Sequence[int]
    options: ChangeOptions

    def send(self) -> None:
        """Makes messages due now, or forwards dead letters."""
        changes, ids = self._begin("send")
        if self.selection.dead:
            self._end("sent", changes.forward(ids, self._reason))
        else:
            self._end("sent", changes.send_now(ids, self._reason))

    def postpone(self, until: Until) -> None:
        """Makes messages due at another time."""
        due_ms = until.due_ms(self.database)
        changes, ids = self._begin(f"postpone to {moment(due_ms)}")
        due = changes.count_due(ids)
        count = changes.postpone(ids, due_ms, self._reason)
        self._end(f"postponed to {moment(due_ms)}", count, due)

    def delete(self) -> None:
        """Deletes them."""
        changes, ids = self._begin("delete")
        if self.selection.dead:
            self._end("deleted", changes.delete_dead_letters(ids, self._reason))
        else:
            due = changes.count_due(ids)
            self._end("deleted", changes.delete_messages(ids, self._reason), due)

    def give_up(self) -> None:
        """Makes dead letters of them."""
        changes, ids = self._begin("give up")
        due = changes.count_due(ids)
        self._end("given up", changes.give_up(ids, self._reason), due)

    @property
    def _reason(self) -> Reason:
        return Reason(self.options.actor, self.options.why)

    @property
    def _what(self) -> str:
        return "dead letter" if self.selection.dead else "message"

    def _begin(self, action: str) -> tuple[Changes, Sequence[int]]:
        """Returns what to change; a dry run says so and ends here."""
        self.selection.check()
        if bool(self.numbers) != self.selection.is_empty:
            raise typer.BadParameter("write either numbers, or options that select")
        ids = self.numbers or self._selected()
        if not ids:
            self._end(action, 0)
        changes = Changes(self.database)
        if not self.options.yes:
            if action == "send" and self.selection.dead:
                changes.check_forward(ids)
            typer.echo(f"would {action}: {plural(len(ids), self._what)}; do it with --yes")
            raise typer.Exit
        return changes, ids

    def _selected(self) -> list[int]:
        database, selection = self.database, self.selection
        with database.reading() as connection:
            if selection.dead:
                letters = selection.dead_letters(self.service)
                return dead_letters.ids(database, connection, letters, limit=MOST_IDS)
            waiting = selection.messages(self.service)
            return messages.ids(database, connection, waiting, limit=MOST_IDS)

    def _end(self, done: str, count: int, due: int = 0) -> None:
        if not count:
            fail(f"store {self.database}: there is no such {self._what}", NEGATIVE)
        is_part = not self.numbers and count == MOST_IDS
        more = "; that is the most at once, repeat it for the rest" if is_part else ""
        typer.echo(f"{done}: {plural(count, self._what)}{more}")
        if due:
            typer.echo(f"due before: {due}; those that were being sent come all the same", err=True)
