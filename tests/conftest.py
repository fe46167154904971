"""Fixtures of all tests."""

from __future__ import annotations

import functools
import gc
import itertools
import os
import shutil
import signal
from collections.abc import Callable, Generator, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, TypeAlias

import pytest
import typer.main
import typer.testing
from hypothesis import settings

from tests.kafka_jars import NoBrokerError
from tests.real_kafka import RealKafka

if TYPE_CHECKING:  # most runs need no database
    from linear_retry.store.database import Database
    from tests.postgres import Postgres

TopicFactory: TypeAlias = Callable[..., str]
"""`topic(partitions=1, config=None)`: the name of a new topic."""

# Each run draws others: a few of each are enough for one.
_DRAWS = settings(max_examples=40, print_blob=True, deadline=None)
settings.register_profile("default", _DRAWS)
# On CI the same examples each time: a red run must be about the change.
settings.register_profile("ci", _DRAWS, derandomize=True, database=None)
settings.load_profile("ci" if os.environ.get("CI") else "default")

_numbers = itertools.count(1)


_PATIENT = {"broker.session.timeout.ms": "60000", "broker.heartbeat.interval.ms": "2000"}
"""For a broker that is never killed: on a busy machine its controller took it for dead after 3 s,
and its clients saw a cluster without brokers."""


def started(directory: Path, settings: dict[str, str] | None = None) -> Iterator[RealKafka]:
    """A broker while it is wanted; without Java or its jars the test fails."""
    try:
        with RealKafka(directory, settings) as broker:
            yield broker
    except NoBrokerError as error:
        pytest.fail(str(error), pytrace=False)  # never a skip: green must mean tried


@pytest.fixture(scope="session", autouse=True)
def _no_cluster_of_ones_own(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """No test takes the cluster that whoever runs it has set for `linear-retry`."""
    with pytest.MonkeyPatch.context() as patch:
        patch.delenv("LINEAR_RETRY_BOOTSTRAP", raising=False)
        patch.delenv("LINEAR_RETRY_CONFIG", raising=False)
        patch.setenv("XDG_CONFIG_HOME", str(tmp_path_factory.mktemp("config")))
        yield


@pytest.fixture(scope="session", autouse=True)
def _commands_are_made_once() -> Iterator[None]:
    """Typer makes all commands of an app at each call, in 35 ms."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("typer.testing._get_command", functools.cache(typer.main.get_command))
        yield


@pytest.fixture(scope="session", autouse=True)
def _signals_are_heard() -> None:
    """A shell's background job ignores Ctrl-C, one under nohup a hang-up: so does all it starts."""
    if signal.getsignal(signal.SIGINT) == signal.SIG_IGN:
        signal.signal(signal.SIGINT, signal.default_int_handler)
    if signal.getsignal(signal.SIGHUP) == signal.SIG_IGN:
        signal.signal(signal.SIGHUP, signal.SIG_DFL)


@pytest.fixture(scope="session")
def kafka(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RealKafka]:
    """The broker of the whole run, started when the first test asks; leave it running."""
    yield from started(tmp_path_factory.mktemp("kafka"), _PATIENT)


@pytest.fixture
def own_kafka(tmp_path: Path) -> Iterator[RealKafka]:
    """A broker of this test's own, to stop, kill and start."""
    yield from started(tmp_path / "kafka")


@pytest.fixture
def topic(kafka: RealKafka) -> TopicFactory:
    """Makes topics with names of their own on the shared broker."""

    def new(partitions: int = 1, config: dict[str, str] | None = None) -> str:
        name = f"topic-{next(_numbers)}"
        kafka.create_topic(name, partitions, config)
        return name

    return new


@pytest.fixture(scope="session")
def postgres() -> Iterator[Postgres]:
    """The PostgreSQL of the whole run, started when the first test asks; leave it running."""
    from tests.postgres import Postgres  # it imports psycopg

    with Postgres() as server:
        yield server


@pytest.fixture(scope="session")
def migrated_postgres(postgres: Postgres) -> str:
    """The name of a database with the store's tables, to be copied."""
    name = "migrated"
    _migrate(postgres.new_database(name))
    return name


@pytest.fixture(scope="session")
def migrated_sqlite(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A SQLite file with the store's tables, to be copied."""
    file = tmp_path_factory.mktemp("store") / "migrated.sqlite3"
    _migrate(f"sqlite:///{file}")
    return file


def _migrate(url: str) -> None:
    from linear_retry.store.database import Database
    from linear_retry.store.migrations import migrate

    database = Database(url)
    migrate(database)
    database.close()


@pytest.fixture
def postgres_url(postgres: Postgres, migrated_postgres: str) -> Iterator[str]:
    """The URL of an empty store in a PostgreSQL database of this test's own."""
    name = f"store_{next(_numbers)}"
    yield postgres.new_database(name, template=migrated_postgres)
    postgres.drop_database(name)  # hundreds of them take minutes to remove at the end


@pytest.fixture
def sqlite_url(migrated_sqlite: Path, tmp_path: Path) -> str:
    """The URL of an empty store in a SQLite file of this test's own."""
    file = tmp_path / "store.sqlite3"
    shutil.copy(migrated_sqlite, file)
    return f"sqlite:///{file}"


@pytest.fixture(params=["sqlite", "postgres"])
def store_url(request: pytest.FixtureRequest) -> str:
    """The URL of an empty store, in SQLite and then in PostgreSQL."""
    url: str = request.getfixturevalue(f"{request.param}_url")
    return url


@pytest.fixture
def database(store_url: str) -> Iterator[Database]:
    """An empty store, in SQLite and then in PostgreSQL."""
    from linear_retry.store.database import Database

    database = Database(store_url)
    yield database
    database.close()


def pytest_collection_finish() -> None:
    """What is there by now stays, and no collection of garbage is to look through it."""
    gc.freeze()


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(
    item: pytest.Item,
) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """A test that fails shows what its broker has logged, which may have been the one that did."""
    report = yield
    fixtures = getattr(item, "funcargs", {})
    if report.failed:
        brokers = {each for each in fixtures.values() if isinstance(each, RealKafka)}
        report.sections.extend(("broker's log", broker.log_tail()) for broker in brokers)
    return report


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """What the torture has played, with its seeds."""
    reports = [*terminalreporter.getreports("passed"), *terminalreporter.getreports("failed")]
    lines = [text for report in reports for key, text in report.user_properties if key == "torture"]
    if lines:
        terminalreporter.section("torture")
    for line in lines:
        terminalreporter.line(str(line))
