"""What waits to be stored is kept until the store takes it, and is given up only after trying."""

import logging
import threading
from collections import deque
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import psycopg
import pytest
from sqlalchemy import text

from linear_retry.errors import StoreVersionError
from linear_retry.kafka.producers.direct import Report
from linear_retry.outbox import Outbox
from linear_retry.outbox.storing import Storing
from linear_retry.store.database import Database
from linear_retry.store.migrations import migrate
from tests.kafka_operations import wait_until
from tests.outbox.scene import LANE, TIMEOUT_S, AwayDatabase, stored, unsent
from tests.postgres import Postgres

_PART = 1_000


def _execute(database: Database, statement: str) -> None:
    with database.begin() as connection:
        connection.execute(text(statement))


def _logged(caplog: pytest.LogCaptureFixture, event: str) -> list[logging.LogRecord]:
    return [each for each in caplog.records if vars(each).get("linear_retry_event") == event]


class _Scene:
    """A `Storing` over a store that can be away, with a clock that stands."""

    def __init__(self, database: Database) -> None:
        self.now_s = 100.0
        self.reports: deque[Report] = deque()
        self.recovered: list[tuple[bytes | None, Exception]] = []
        self.database = database
        self.storing = Storing(
            *(database, self.reports),
            timeout_s=TIMEOUT_S,
            recover=lambda each, error: self.recovered.append((each.value, error)),
            now_s=lambda: self.now_s,
        )

    def take(self, numbers: range) -> None:
        self.storing.take([unsent(number) for number in numbers])

    def after(self, seconds: float) -> list[int]:
        """What the steps that are due then return."""
        self.now_s += seconds
        return list(iter(self.storing.step, 0))

    @property
    def lost(self) -> list[int]:
        return [int(value or b"") for value, _ in self.recovered]


@pytest.fixture
def scene(database: Database) -> _Scene:
    return _Scene(database)


def _drop(database: Database) -> None:
    _execute(database, "ALTER TABLE linear_retry_message RENAME TO away")


def _restore(database: Database) -> None:
    _execute(database, "ALTER TABLE away RENAME TO linear_retry_message")


def test_what_one_failed_write_leaves_is_stored_by_the_next(scene: _Scene) -> None:
    """One failed statement, and all that waited was given up, though the next would have worked."""
    scene.take(range(2_500))
    _drop(scene.database)
    assert [] == scene.after(0.0)
    assert ("linear_retry_message" in scene.storing.trouble, 2_500) == (True, len(scene.storing))
    _restore(scene.database)
    scene.take(range(2_500, 2_600))
    assert [_PART, _PART, 600] == scene.after(1.0)
    assert list(range(2_600)) == stored(scene.database)
    assert ("", 0, 2_600) == (scene.storing.trouble, scene.storing.lost, scene.storing.stored)
    assert [] == scene.recovered


def test_only_what_was_tried_for_long_enough_is_given_up(scene: _Scene) -> None:
    """Each message has its time, and its own attempt; what came later stays."""
    scene.take(range(1_500))
    _drop(scene.database)
    assert [] == scene.after(0.0)
    assert [] == scene.after(TIMEOUT_S - 1.0)
    scene.take(range(1_500, 1_600))
    assert [_PART, 500] == scene.after(1.0)
    assert list(range(1_500)) == scene.lost
    _restore(scene.database)
    assert [100] == scene.after(1.0)
    assert list(range(1_500, 1_600)) == stored(scene.database)


def test_a_failure_after_a_success_begins_a_new_time(scene: _Scene) -> None:
    """Messages that waited long behind others are not given up at their first failed attempt."""
    scene.take(range(1_500))
    assert _PART == scene.storing.step()
    scene.now_s += 5 * TIMEOUT_S
    _drop(scene.database)
    assert [] == scene.after(0.0)
    _restore(scene.database)
    assert [500] == scene.after(1.0)
    assert [] == scene.lost


def test_a_store_that_is_not_reached_was_tried_for_all(sqlite_url: str) -> None:
    """Else 100,000 messages would take a hundred attempts at a host that does not answer."""
    database = AwayDatabase(sqlite_url)
    scene = _Scene(database)
    scene.take(range(2_500))
    database.is_away = True
    assert [] == scene.after(0.0)
    assert [] == scene.after(1.0)
    scene.take(range(2_500, 2_510))
    assert [2_500] == scene.after(TIMEOUT_S - 1.0)
    assert 10 == len(scene.storing)
    database.close()


def test_each_lost_message_has_an_error_of_its_own(scene: _Scene) -> None:
    """A thousand futures that raise one exception add to its traceback, each its own frames."""
    scene.take(range(20))
    _drop(scene.database)
    scene.after(0.0)
    assert [20] == scene.after(TIMEOUT_S)
    errors = [report.error for report in scene.reports]
    assert 20 == len({id(error) for error in errors})
    assert {StoreVersionError} == {type(error) for error in errors}
    assert [id(error) for error in errors] == [id(error) for _, error in scene.recovered]


def test_a_message_that_no_store_takes_fails_alone(scene: _Scene) -> None:
    """Its neighbours failed with it, and all had its error. Nor does each halving wait for a turn:
    the steps go on until nothing waits."""
    scene.take(range(5))
    scene.storing.take([unsent(5, timestamp_ms=2**70)])  # no database has such a number
    scene.take(range(6, 1_200))
    assert 1_200 == sum(scene.after(0.0))
    assert [*range(5), *range(6, 1_200)] == stored(scene.database)
    assert ([5], "") == (scene.lost, scene.storing.trouble)


def test_the_trouble_lasts_until_a_write_works(scene: _Scene) -> None:
    """Health was `direct` while a full disk lost everything: reading works there."""
    scene.take(range(3))
    _drop(scene.database)
    _execute(scene.database, "ALTER TABLE linear_retry_setting RENAME TO setting_away")
    scene.after(0.0)
    assert [3] == scene.after(TIMEOUT_S)
    assert [] == scene.after(TIMEOUT_S)
    assert "linear_retry_setting" in scene.storing.trouble
    _execute(scene.database, "ALTER TABLE setting_away RENAME TO linear_retry_setting")
    assert [] == scene.after(1.0)
    assert "" == scene.storing.trouble


def test_losses_are_logged_by_their_number(scene: _Scene, caplog: pytest.LogCaptureFixture) -> None:
    """One line for each message would be a flood; what the lines count is what was lost."""
    _drop(scene.database)
    for number in range(50):
        scene.take(range(number, number + 1))
        scene.after(0.0)
        scene.after(TIMEOUT_S / 10)
    assert [] != scene.after(TIMEOUT_S)
    assert [] == scene.after(60.0)
    lines = _logged(caplog, "MessagesLost")
    counts = [vars(each)["linear_retry_count"] for each in lines]
    assert (50, 50) == (sum(counts), scene.storing.lost)
    assert (2, 1) == (len(counts), len(_logged(caplog, "OutboxTrouble")))
    assert all("linear_retry_message" in vars(each)["linear_retry_error"] for each in lines)
    _restore(scene.database)
    scene.storing.take([unsent(number, timestamp_ms=2**70) for number in range(3)])
    scene.take(range(100, 101))
    assert 4 == sum(scene.after(1.0))
    scene.storing.end()
    assert 53 == sum(vars(e)["linear_retry_count"] for e in _logged(caplog, "MessagesLost"))
    assert "" not in [vars(e)["linear_retry_error"] for e in _logged(caplog, "MessagesLost")]


def test_refused_messages_are_logged_by_their_number(
    scene: _Scene, caplog: pytest.LogCaptureFixture
) -> None:
    """Each success among them was followed by a line: one for each message that was refused."""
    for number in range(0, 20, 2):
        scene.storing.take([unsent(number, timestamp_ms=2**70)])
        scene.take(range(number + 1, number + 2))
        assert 2 == sum(scene.after(0.0))
    scene.after(60.0)
    lines = _logged(caplog, "MessagesLost")
    assert [1, 9] == [vars(each)["linear_retry_count"] for each in lines]
    assert lines[0].getMessage().startswith("outbox: 1 message could")


def test_a_commit_that_is_not_answered_may_have_stored(store_url: str) -> None:
    """The connection dies as the transaction commits: newer messages of the lane were sent directly
    before what the store has."""
    database = AwayDatabase(store_url)
    scene = _Scene(database)
    scene.take(range(1))
    assert "orders" == scene.storing.topic_to_send()
    database.loses_answers = True
    assert [] == scene.after(0.0)
    assert ([0], {LANE}) == (stored(database), scene.storing.lanes)
    assert None is scene.storing.topic_to_send()
    database.close()


def test_the_age_of_what_does_not_come_back_is_forgotten(scene: _Scene) -> None:
    """Kafka has it: what was kept of each such message grew while the store was away."""
    for number in range(10):
        scene.take(range(number, number + 1))
        scene.storing.withdraw()
        scene.now_s += TIMEOUT_S
    assert 2 >= len(scene.storing._since_s)


def _storing_pid(postgres_url: str) -> int | None:
    with psycopg.connect(postgres_url) as connection:
        row = connection.execute(
            "SELECT pid FROM pg_stat_activity WHERE wait_event = 'PgSleep' "
            "AND datname = current_database() AND query LIKE 'INSERT INTO linear_retry_message%'"
        ).fetchone()
    return None if row is None else row[0]


@pytest.mark.parametrize("store_url", ["postgres"], indirect=True)
def test_one_cancelled_statement_loses_nothing(scene: _Scene, postgres_url: str) -> None:
    """An administrator cancels one INSERT: 20,000 of 20,000 messages were given up."""
    scene.take(range(2_500))
    with psycopg.connect(postgres_url, autocommit=True) as other, ThreadPoolExecutor(1) as pool:
        other.execute(
            "CREATE FUNCTION hang() RETURNS trigger LANGUAGE plpgsql "
            "AS $$ BEGIN PERFORM pg_sleep(3600); RETURN NEW; END $$"
        )
        other.execute(
            "CREATE TRIGGER hanging BEFORE INSERT ON linear_retry_message EXECUTE FUNCTION hang()"
        )
        step = pool.submit(scene.storing.step)
        pid = wait_until(lambda: _storing_pid(postgres_url), "it stores")
        other.execute("SELECT pg_cancel_backend(%s)", [pid])
        assert 0 == step.result()
        other.execute("DROP TRIGGER hanging ON linear_retry_message")
    assert [_PART, _PART, 500] == scene.after(1.0)
    assert list(range(2_500)) == stored(scene.database)
    assert (2_500, 0) == (scene.storing.stored, scene.storing.lost)


@pytest.mark.parametrize("store_url", ["postgres"], indirect=True)
def test_a_locked_table_costs_no_minute_for_each_part(scene: _Scene, postgres_url: str) -> None:
    """Each part waited for the lock until PostgreSQL ended the statement: `close` took an hour."""
    scene.take(range(1_500))
    with psycopg.connect(postgres_url) as other:
        other.execute("LOCK TABLE linear_retry_message IN SHARE MODE")
        assert [] == scene.after(0.0)
        assert "lock timeout" in scene.storing.trouble
        assert [_PART, 500] == scene.after(TIMEOUT_S)
    scene.take(range(1_500, 1_600))
    assert [100] == scene.after(1.0)
    assert list(range(1_500, 1_600)) == stored(scene.database)


def test_a_part_is_no_larger_than_any_server_takes(scene: _Scene) -> None:
    """A thousand large messages were one transaction, which a server refused for ever: all were
    given up, though it would have taken each."""
    large = 6 * 1024 * 1024
    scene.storing.take([unsent(number, value=bytes(large)) for number in range(4)])
    scene.storing.take([unsent(4, value=bytes(4 * large))])
    scene.storing.take([unsent(number, value=b"") for number in range(5, 10)])
    assert [2, 2, 1, 5] == scene.after(0.0)


def test_a_restart_of_the_server_loses_nothing(
    down: dict[str, Any], caplog: pytest.LogCaptureFixture
) -> None:
    """Three seconds at the wrong moment: 5,000 of 5,000 were given up. `close` waits for it too."""
    with Postgres() as server:
        database = Database(server.url)
        migrate(database)
        outbox = Outbox(down | {"message.timeout.ms": 60_000}, store=server.url, sender=False)
        for number in range(3_000):
            outbox.produce("orders", b"%d" % number, b"k")
        server.stop()
        closing = threading.Thread(target=outbox.close, args=(0.0,))
        closing.start()
        wait_until(lambda: _logged(caplog, "OutboxTrouble"), "the store fails")
        server.start()
        closing.join()
        assert list(range(3_000)) == stored(database)
        assert (3_000, 0) == (outbox.counts.stored, outbox.counts.lost)
        database.close()
