"""An application is killed wherever: what was told to be durable is sent, in order."""

import signal
from collections import defaultdict
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import delete, select, update

from linear_retry.outbox import Outbox
from linear_retry.store import lanes
from linear_retry.store.database import Database
from linear_retry.store.schema import dead_letter, instance, lease
from tests.conftest import TopicFactory
from tests.kafka_operations import wait_until
from tests.outbox.struck.child import KEYS, LARGEST_BYTES, Role
from tests.real_kafka import RealKafka
from tests.scenarios.process import Process
from tests.torture.struck.moments import Blow

pytestmark = pytest.mark.broker


@dataclass(frozen=True, slots=True)
class Point:
    """Where it is killed: a moment, when it comes for the `nth` time."""

    moment: str
    nth: int = 1


_TAKEN_BACK = "before the commit of messages"
_STORED = "after the commit of messages"
_SENT = "before the commit of deletions"
_REMOVED = "after the commit of deletions"
POINTS = (
    Point(_TAKEN_BACK, nth=3),
    Point(_STORED),
    Point(_SENT),
    Point(_REMOVED, nth=2),
)
"""The number of each is its place."""
_ON_SQLITE = (Point(_STORED, nth=3),)
_CASES = [
    pytest.param(store, each, id=f"{store}-{each.moment.replace(' ', '-')}-{each.nth}")
    for store, points in (("postgres", POINTS), ("sqlite", _ON_SQLITE))
    for each in points
]


def _kill(role: Role, struck: Path, errors: Path) -> None:
    process = Process(role, errors, lambda: None, "tests.outbox.struck.child")
    try:
        wait_until(lambda: process.has_ended, "it comes to its point", process.stderr)
        assert -signal.SIGKILL == process.exit_code(), process.stderr()
        assert struck.exists(), process.stderr()
    finally:
        process.kill()


def _inherit(database: Database, config: dict[str, Any], url: str) -> None:
    """Sends what was left behind, as if the leases of the dead had run out."""
    with database.begin() as connection:
        connection.execute(update(lease).values(until_ms=0))
        connection.execute(delete(instance))

    def is_empty() -> bool:
        with database.reading() as connection:
            return not lanes.waiting(connection, "outbox")

    with Outbox(config, store=url, on_refused="dead-letter") as heir:
        wait_until(is_empty, "the store has sent all", heir.health)


@pytest.mark.parametrize(("store_url", "point"), _CASES, indirect=["store_url"])
def test_a_killed_application_loses_nothing_that_was_durable(
    kafka: RealKafka,
    topic: TopicFactory,
    store_url: str,
    database: Database,
    tmp_path: Path,
    point: Point,
) -> None:
    """Of a key only the end is missing, the first copies are in order, and each has one id."""
    name = topic(2, {"max.message.bytes": f"{LARGEST_BYTES}"})
    struck, testimony = tmp_path / "struck", tmp_path / "testimony"
    blow = asdict(Blow(point.moment, f"{struck}", "", point.nth))
    config = kafka.client_settings()
    role = Role(store_url, config, name, blow, f"{testimony}")
    _kill(role, struck, tmp_path / "stderr")
    _inherit(database, config, store_url)
    sent: dict[int, set[Any]] = defaultdict(set)
    for each in kafka.read(name):
        sent[int(each.value() or b"")].add(dict(each.headers() or [])["retry-message-id"])
    assert {} == {number: ids for number, ids in sent.items() if len(ids) > 1}
    with database.reading() as connection:
        dead = {int(value) for value in connection.scalars(select(dead_letter.c.value))}
    assert {int(line) for line in testimony.read_text().split()} <= sent.keys() | dead
    for key in range(KEYS):
        numbers = [number for number in sent if number % KEYS == key]
        assert sorted(numbers) == numbers
        there = sorted(number for number in sent.keys() | dead if number % KEYS == key)
        assert list(range(key, key + KEYS * len(there), KEYS)) == there
