"""Leases: one instance for each at a time, a fair share for each instance."""

import os
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path

import psycopg
import pytest
from sqlalchemy import make_url, select, text, update

from linear_retry.store import database as store_database
from linear_retry.store.database import Database
from linear_retry.store.lanes import LEASES
from linear_retry.store.schema import instance, lease
from linear_retry.store.sender.leases import Leases
from tests.kafka_operations import wait_until

_LENGTH_MS = 3_600_000


@pytest.fixture
def leases(database: Database) -> Callable[[str], Leases]:
    """Makes an instance of this name."""
    return lambda owner: Leases(database, "scheduler", owner, _LENGTH_MS)


def _expire(database: Database) -> None:
    """What time does."""
    with database.begin() as connection:
        connection.execute(update(lease).values(until_ms=0))


def _epochs(database: Database) -> set[int]:
    with database.begin() as connection:
        return set(connection.scalars(select(lease.c.epoch)))


def test_one_instance_has_all(leases: Callable[[str], Leases]) -> None:
    """It takes them once, and keeps them."""
    only = leases("a")
    assert set(range(LEASES)) == only.keep() == only.numbers
    assert set() == only.keep()
    assert set(range(LEASES)) == only.numbers


@pytest.mark.parametrize(("instances", "shares"), [(2, [4, 4]), (3, [3, 3, 2]), (9, [1] * 8 + [0])])
def test_each_has_its_fair_share(
    leases: Callable[[str], Leases], instances: int, shares: list[int]
) -> None:
    """Who has more gives some back; nobody has what another has."""
    each = [leases(f"instance {number}") for number in range(instances)]
    for _ in range(2):
        for one in each:
            one.keep()
    assert shares == [len(one.numbers) for one in each]
    assert LEASES == len(frozenset().union(*(one.numbers for one in each)))


def test_a_batch_under_way_keeps_its_lease(
    leases: Callable[[str], Leases], database: Database
) -> None:
    """Beyond the share nothing more is sent under it, and it is given back once that is done."""
    first, second = leases("a"), leases("b")
    first.keep()
    second.keep()
    first.keep(busy=frozenset(range(6)))
    with database.begin() as connection:
        assert (6, 4) == (len(first.numbers), len(first.still_held(connection)))
    assert 2 == len(second.keep())
    first.keep()
    assert (4, 2) == (len(first.numbers), len(second.keep()))


def test_what_has_run_out_is_free_for_others(
    leases: Callable[[str], Leases], database: Database
) -> None:
    """Its former holder learns of it when it looks, and cannot take it again by itself."""
    first, second = leases("a"), leases("b")
    first.keep()
    _expire(database)
    taken = second.keep()
    assert 4 == len(taken)
    with database.begin() as connection:
        assert first.still_held(connection) == set(range(LEASES)) - taken
    assert not first.retake(min(taken))
    assert second.retake(min(taken))
    assert {1, 2, 3} == _epochs(database)


def test_its_holder_keeps_what_has_run_out(
    leases: Callable[[str], Leases], database: Database
) -> None:
    """As long as nobody has taken it."""
    only = leases("a")
    only.keep()
    _expire(database)
    assert set() == only.keep()
    assert LEASES == len(only.numbers)
    assert {1} == _epochs(database)


def test_a_renewal_takes_nothing(leases: Callable[[str], Leases], database: Database) -> None:
    """It prolongs what its holder still has, and brings back nobody who has left."""
    first, second = leases("a"), leases("b")
    first.keep()
    _expire(database)
    first.renew()
    assert set() == second.keep()
    _expire(database)
    taken = second.keep()
    _expire(database)
    first.renew()
    assert leases("c").keep() < taken
    first.give_back()
    first.renew()
    with database.begin() as connection:
        assert {"b", "c"} == set(connection.scalars(select(instance.c.owner)))


def test_a_clock_that_is_set_back_keeps_nothing_for_the_dead(
    leases: Callable[[str], Leases], database: Database
) -> None:
    """A lease that ends later than one begun now is nobody's, and its holder counts no more."""
    leases("killed").keep()
    with database.begin() as connection:
        later_ms = database.now_ms(connection) + 2 * _LENGTH_MS
        connection.execute(update(lease).values(until_ms=later_ms))
        connection.execute(update(instance).values(seen_ms=later_ms))
    assert set(range(LEASES)) == leases("next").keep()


def test_what_is_given_back_is_free_at_once(leases: Callable[[str], Leases]) -> None:
    """And the other instance's share is all again."""
    first, second = leases("a"), leases("b")
    first.keep()
    first.give_back()
    assert not first.numbers
    assert set(range(LEASES)) == second.keep()


def test_marks_tell_who_lives(database: Database, tmp_path: Path) -> None:
    """Nothing is taken from a process that lives, nor from one of which no file is there."""
    first, second, unmarked = (
        Leases(database, "scheduler", name, _LENGTH_MS, marks=marks)
        for name, marks in (("a", tmp_path), ("b", tmp_path), ("c", None))
    )
    for _ in range(2):
        for each in (first, second, unmarked):
            each.keep()
    with database.begin() as connection:
        held = [each.still_held(connection) for each in (first, second, unmarked)]
    assert [3, 3, 2] == [len(each) for each in held]
    second.give_back()
    (left,) = tmp_path.glob("*.alive")
    assert left.stem.endswith("-a")
    first.give_back()
    assert [] == list(tmp_path.glob("*.alive"))


def test_marks_of_those_who_died_long_ago_are_removed(database: Database, tmp_path: Path) -> None:
    """They stayed for ever. Not those of who lives, nor those that others still have to see."""
    living = Leases(database, "scheduler", "a", _LENGTH_MS, marks=tmp_path)
    living.keep()
    (mark,) = tmp_path.glob("*.alive")
    old, fresh = (mark.with_stem(f"{mark.stem[:-1]}{name}") for name in ("old", "fresh"))
    for each in (old, fresh):
        each.touch()
    for each in (mark, old):
        os.utime(each, (0, 0))
    Leases(database, "scheduler", "b", _LENGTH_MS, marks=tmp_path).keep()
    assert (True, False, True) == (mark.exists(), old.exists(), fresh.exists())
    living.keep()
    assert mark.stat().st_mtime > 0


def _is_waiting(database: Database) -> bool:
    look = text(
        "SELECT count(*) FROM pg_stat_activity "
        "WHERE datname = current_database() AND wait_event_type = 'Lock'"
    )
    with database.begin() as connection:
        return bool(connection.execute(look).scalar_one())


@pytest.mark.parametrize("store_url", ["postgres"], indirect=True)
@pytest.mark.parametrize("call", [Leases.keep, Leases.give_back])
def test_what_locks_both_tables_does_so_in_the_order_of_a_renewal(
    database: Database, store_url: str, tmp_path: Path, call: Callable[[Leases], object]
) -> None:
    """After a death, or at the end, one waited for the renewal of its own, and that for it."""
    first = Leases(database, "scheduler", "a", _LENGTH_MS, marks=tmp_path)
    first.keep()
    (mark,) = tmp_path.glob("*.alive")
    Leases(database, "scheduler", "b", _LENGTH_MS).keep()
    mark.with_stem(f"{mark.stem[:-1]}b").touch()  # of a process that has died
    with psycopg.connect(store_url) as renewal, ThreadPoolExecutor(1) as pool:
        renewal.execute("UPDATE linear_retry_instance SET seen_ms = seen_ms WHERE owner = 'a'")
        called = pool.submit(call, first)
        wait_until(lambda: _is_waiting(database), "it waits")
        renewal.execute("SELECT 1 FROM linear_retry_lease ORDER BY number FOR UPDATE")
        renewal.commit()
        called.result()


@pytest.mark.parametrize("store_url", ["postgres"], indirect=True)
def test_another_service_that_is_suspended_holds_up_nobody(
    leases: Callable[[str], Leases], database: Database, store_url: str
) -> None:
    """The bug: a suspended outbox of the same store held up the scheduler for 15 s, each time."""
    Leases(database, "outbox", "b", _LENGTH_MS).keep()
    with psycopg.connect(store_url) as other:
        other.execute("SELECT 1 FROM linear_retry_instance WHERE service = 'outbox' FOR UPDATE")
        assert set(range(LEASES)) == leases("a").keep()


@contextmanager
def _amid(postgres_url: str, statement: bytes, *, is_whole: bool) -> Iterator[None]:
    """A session in the middle of this statement; unless it `is_whole`, its end is not sent."""
    url = make_url(postgres_url).update_query_dict({"application_name": "linear_retry"})
    with psycopg.connect(url.render_as_string()) as session:
        session.execute("SELECT 1")  # opens a transaction
        session.pgconn.enter_pipeline_mode()
        session.pgconn.send_query_params(statement, None)
        if is_whole:
            session.pgconn.pipeline_sync()
        session.pgconn.flush()
        yield
        session.pgconn.finish()


@pytest.mark.parametrize("store_url", ["postgres"], indirect=True)
def test_a_process_suspended_within_a_statement_loses_its_locks(
    leases: Callable[[str], Leases],
    database: Database,
    store_url: str,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Whoever keeps leases ends its session; one that is at work on a statement continues."""
    ours = leases("a")
    ours.keep()
    locking, working = b"SELECT 1 FROM linear_retry_lease FOR UPDATE", b"SELECT pg_sleep(3600)"
    monkeypatch.setattr(store_database, "_IDLE_TIMEOUT_MS", 0)
    with (
        _amid(store_url, working, is_whole=True),
        _amid(store_url, locking, is_whole=False),
    ):
        wait_until(
            lambda: _states(database) == {"PgSleep", "ClientRead"},
            "both are amid",
        )
        ours.keep()
        wait_until(lambda: _states(database) == {"PgSleep"}, "one ends")


def _states(database: Database) -> set[str]:
    """What the other sessions of this database wait for, in the middle of a statement."""
    look = text(
        "SELECT wait_event FROM pg_stat_activity "
        "WHERE datname = current_database() AND pid <> pg_backend_pid() AND state = 'active'"
    )
    with database.begin() as connection:
        return {row.wait_event for row in connection.execute(look)}
