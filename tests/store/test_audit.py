"""The audit has every change, the latest first."""

from linear_retry.store import audit
from linear_retry.store.database import Database


def test_changes_come_back_latest_first(database: Database) -> None:
    """Page by page, with whatever the texts hold."""
    with database.begin() as connection:
        for number in range(5):
            audit.write(
                database,
                connection,
                actor="a\0",
                action="postpone",
                count=number,
                details={"ids": [number], "why": "\0\ud800'--"},
            )
    with database.reading() as connection:
        first = audit.read(connection, limit=3)
        second = audit.read(connection, limit=3, before_id=first[-1].id)
    assert [4, 3, 2, 1, 0] == [each.count for each in first + second]
    assert {"ids": [4], "why": "\0\ud800'--"} == first[0].details
    assert ("a\ufffd", "postpone") == (first[0].actor, first[0].action)


def test_a_change_that_fails_is_not_in_the_audit(database: Database) -> None:
    """It is written in the transaction of the change."""
    try:
        with database.begin() as connection:
            audit.write(database, connection, actor="a", action="b", count=1, details={})
            raise KeyError
    except KeyError:
        with database.reading() as connection:
            assert [] == audit.read(connection, limit=3)
