"""Writes to the store what became of messages that were sent."""

from collections.abc import Callable, Iterator, Sequence
from typing import TypeAlias

from sqlalchemy import Connection, select, update

from linear_retry.store import dead_letters, messages
from linear_retry.store.database import Database
from linear_retry.store.records import OnRefused, StoredMessage
from linear_retry.store.schema import lane, message
from linear_retry.store.sender.batch import Accepted, Dead, Held, Outcome
from linear_retry.store.sender.clock import ForwardClock
from linear_retry.store.sender.progress import (
    LaneHeld,
    LaneResumed,
    MessageDied,
    Progress,
    Sent,
)

Delays: TypeAlias = Callable[[int], float | None]
"""The wait in seconds after failure number n of a lane, from 1; None: its first message dies."""

_UNTIL_IT_WORKS_S = (1.0, 2.0, 5.0, 10.0, 30.0, 60.0)


def until_it_works(failures: int) -> float:
    """The delays of the scheduler: up to a minute, for ever."""
    return _UNTIL_IT_WORKS_S[min(failures, len(_UNTIL_IT_WORKS_S)) - 1]


class Settlement:
    """Deletes what was sent, holds lanes that are refused, and stores what is dead.

    Repeating it changes nothing: its answer may be lost. It asks for no lease: what is in Kafka may
    be deleted by anyone.
    """

    def __init__(
        self,
        database: Database,
        delays: Delays,
        clock: Database | ForwardClock,
        *,
        on_refused: OnRefused = "dead-letter",
    ) -> None:
        self._database, self._delays, self._clock = database, delays, clock
        self._on_refused = on_refused

    def write(self, connection: Connection, outcomes: Sequence[Outcome]) -> list[Progress]:
        """Writes them; returns what to tell once the transaction is committed."""
        now_ms = self._clock.now_ms(connection)
        return [event for each in outcomes for event in self._written(connection, each, now_ms)]

    def _written(self, connection: Connection, outcome: Outcome, now_ms: int) -> Iterator[Progress]:
        match outcome:
            case Accepted(sent):
                yield from self._accepted(connection, sent, now_ms)
            case Held(first, error):
                yield from self._held(connection, first, error, now_ms)
            case Dead(refused, _, error) if self._on_refused == "hold" and refused.has_order:
                yield from self._held(connection, refused, error, now_ms)
            case Dead(refused, reason, error):
                if _is_as_read(connection, refused):
                    yield from self._dead(connection, refused, reason, error)

    def _accepted(
        self, connection: Connection, sent: Sequence[StoredMessage], now_ms: int
    ) -> Iterator[Progress]:
        messages.remove_sent(connection, sent)
        latest_ms = now_ms - min(each.due_ms for each in sent)
        yield Sent(sent[0].service, len(sent), latest_ms)
        open_again = (
            update(lane)
            .where(lane.c.id.in_({each.lane_id for each in sent}), lane.c.failures > 0)
            .values(failures=0, hold_until_ms=0, error=None)
            .returning(lane.c.service, lane.c.destination, lane.c.slot)
        )
        for row in connection.execute(open_again):
            yield LaneResumed(*row)

    def _held(
        self, connection: Connection, first: StoredMessage, error: str, now_ms: int
    ) -> Iterator[Progress]:
        # An application's open transaction may lock the lane: then it is tried again meanwhile.
        this = select(lane).where(lane.c.id == first.lane_id)
        row = connection.execute(this.with_for_update(skip_locked=True, key_share=True)).first()
        if row is None or row.hold_until_ms > now_ms or not _is_as_read(connection, first):
            return
        failures = row.failures + 1
        wait_s = self._delays(failures)
        held = {"failures": failures, "error": error, "hold_until_ms": 0}
        if wait_s is None:
            held["failures"] = 0
            yield from self._dead(connection, first, "exhausted", error)
        else:
            held["hold_until_ms"] = now_ms + round(wait_s * 1000)
            place = (first.service, first.destination, first.slot)
            yield LaneHeld(*place, failures, wait_s, error)
        connection.execute(update(lane).where(lane.c.id == row.id).values(held))

    def _dead(
        self, connection: Connection, refused: StoredMessage, reason: str, error: str
    ) -> Iterator[Progress]:
        cause = {"reason": reason, "error": error}
        if dead_letters.add_waiting(self._database, connection, [refused.id], **cause):
            yield MessageDied(refused.service, refused.destination, refused.retry_id, **cause)


def _is_as_read(connection: Connection, read: StoredMessage) -> bool:
    """Whether nobody has changed or deleted it since, or will before the transaction ends."""
    columns = (message.c.due_ms, message.c.stored_ms)
    wanted = select(*columns).where(message.c.id == read.id).with_for_update()
    row = connection.execute(wanted).first()
    return row is not None and tuple(row) == (read.due_ms, read.stored_ms)
