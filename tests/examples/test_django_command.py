"""The Django example charges each order in a transaction, and waits for its database."""

import json
import sqlite3
from contextlib import closing
from pathlib import Path

import pytest

from tests.examples.conftest import SceneFactory

pytestmark = pytest.mark.broker

_MANAGE = "python examples/django_command/manage.py"
_LOCK = "python examples/django_command/lock.py examples/django_command/db.sqlite3 10"


def test_it_waits_for_the_database_and_charges_once(scene: SceneFactory) -> None:
    """A locked database is an outage; an order without a price is a dead letter; and a message
    that comes again changes nothing."""
    here = scene(0)
    folder = here.copy.path("django_command")
    here.copy.run(f"{_MANAGE} migrate")
    orders = [{"order": number, "customer": "ann", "cents": 100 * number} for number in (1, 2, 0)]
    command = f"{_MANAGE} consume_orders"
    with here.copy.running(command) as first:
        first.wait_for("assigned")
        with here.copy.running(_LOCK) as lock:
            lock.wait_for("locked")
            here.produce(*(json.dumps(order).encode() for order in orders))
            first.wait_for("circuit open")
        assert "database is locked" in first.output
        here.wait_until_committed("shop")
        first.end()
    assert [("permanent", 1)] == [(each.reason, each.failures) for each in here.dead_letters()]
    assert [(300,)] == _rows(folder, "spent_cents", "account")
    here.rewind("shop")
    with here.copy.running(command) as second:
        here.wait_until_committed("shop")
        second.end()
    assert [(300,)] == _rows(folder, "spent_cents", "account")
    assert [(1, 0), (2, 1)] == _rows(folder, '"order", "offset"', "charge")


def _rows(folder: Path, columns: str, table: str) -> list[tuple[int, ...]]:
    with closing(sqlite3.connect(folder / "db.sqlite3")) as database:
        return database.execute(f"SELECT {columns} FROM shop_{table} ORDER BY 1").fetchall()
