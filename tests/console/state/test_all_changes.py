"""The audit has every change of both, the latest first, and finds them by who and what."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from linear_retry.console.state.all_changes import AllChanges, Before, RecordedChange, Wanted
from linear_retry.console.state.audit import Audit, RepeatedError
from linear_retry.console.state.state import State
from linear_retry.console.stored.changes import reader
from linear_retry.errors import BrokerError
from linear_retry.store import audit as store_audit
from linear_retry.store.database import Database
from tests.console.recording import record


@pytest.fixture
def own(tmp_path: Path) -> Iterator[Audit]:
    """An audit of the console, empty."""
    state = State(tmp_path / "state")
    yield Audit(state)
    state.close()


def _store(database: Database, actor: str, action: str, ids: list[int], **more: object) -> None:
    with database.begin() as connection:
        store_audit.write(
            database,
            connection,
            actor=actor,
            action=action,
            count=len(ids),
            details={"ids": ids, **more},
        )


def _all(changes: AllChanges, wanted: Wanted, limit: int) -> list[RecordedChange]:
    found, before = changes.read(wanted, limit=limit)
    while before is not None:
        more, before = changes.read(wanted, limit=limit, before=before)
        found += more
    return found


@pytest.mark.parametrize("limit", [1, 3, 100])
def test_pages_of_both_have_each_change_once(own: Audit, database: Database, limit: int) -> None:
    """By time, whatever the size of a page."""
    for number in range(7):
        record(own, "ann", "replay", f"orders.dlq {number}", why="back", outcome="done")
        _store(database, "bob", "send-now", [number + 1], comment="now")
    found = _all(AllChanges(own, reader(database)), Wanted(), limit)
    assert 14 == len({(each.source, each.id) for each in found}) == len(found)
    assert sorted((each.at_ms for each in found), reverse=True) == [e.at_ms for e in found]


def test_who_and_what_select(own: Audit, database: Database) -> None:
    """Any part of a text does, and both must match."""
    record(own, "Ann", "give up", "orders[3]@1042", why="poison", outcome="given up")
    _store(database, "bob", "postpone", list(range(12)), comment="bank holiday", due_ms=17)
    changes = AllChanges(own, reader(database))
    assert ["give up"] == [each.action for each in _all(changes, Wanted(who="ann"), 9)]
    [found] = _all(changes, Wanted(what="HOLIDAY"), 9)
    assert ("store", "bank holiday") == (found.source, found.why)
    assert "0, 1, 2, 3, 4, 5, 6, 7, 8, 9 and 2 more" == found.subject
    assert "12 changed (due_ms 17)" == found.outcome
    assert [] == _all(changes, Wanted(who="ann", what="holiday"), 9)


def test_without_a_store_there_are_the_consoles_own(own: Audit) -> None:
    """And nothing after the last page."""
    record(own, "ann", "retry now", "orders[3]", why="", outcome="retried")
    found, before = AllChanges(own).read(Wanted(), limit=1)
    assert (1, Before(1, None)) == (len(found), before)
    assert ([], None) == AllChanges(own).read(Wanted(), limit=1, before=before)


def test_a_change_is_on_record_before_it_is_made(own: Audit) -> None:
    """A process that is killed meanwhile leaves its line; an error is its outcome."""

    def recorded() -> str:
        return own.read(limit=1)[0].outcome

    with own.recording("ann", "replay", "orders.dlq", why="back") as recording:
        assert recorded().startswith("begun; it has not ended")
        recording.outcome = "done"
    assert "done" == recorded()
    with (
        pytest.raises(BrokerError),
        own.recording("ann", "replay", "orders.dlq", why="back"),
    ):
        raise BrokerError("no broker answers")
    assert "ended by an error: no broker answers" == recorded()


def test_a_form_is_carried_out_once(own: Audit) -> None:
    """However often its button is pressed; those without a number are not compared."""
    for form in ("1", "2", None, None):
        with own.recording("ann", "forward", "orders.dlq", why="back", form=form) as recording:
            recording.outcome = "done"
    with (
        pytest.raises(RepeatedError, match="this form was sent before"),
        own.recording("ann", "forward", "orders.dlq", why="back", form="1"),
    ):
        pytest.fail("it is carried out twice")
    assert 4 == len(own.read(limit=9))
