"""The demo of the scheduler: a database keeps what has left the line, and returns it."""

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory

from linear_retry.demo.display.watching import MakeDisplay
from linear_retry.demo.evidence import Verdict
from linear_retry.demo.off_the_line.run import play
from linear_retry.demo.off_the_line.story import scheduler_of
from linear_retry.demo.run import DemoTopics, Extra, cluster_topics, embedded_topics
from linear_retry.scheduler.service import SchedulerService, SchedulerSettings
from linear_retry.store.database import Database
from linear_retry.store.listing import statistics
from linear_retry.store.migrations import migrate

_LATENCY_S = 0.015
"""Of a payment: a message comes back behind all that are in its topic by then."""


def topics_on(
    bootstrap: str | None, complain: Callable[[str], object]
) -> AbstractContextManager[DemoTopics]:
    """The topics, on an embedded broker or a cluster."""
    if bootstrap is None:
        return embedded_topics(scheduler_of("orders").topics)
    return cluster_topics(bootstrap, complain, _extra)


def _extra(topics: DemoTopics) -> Extra:
    return Extra(scheduler_of(topics.topic).topics, (_settings(topics).group_id,))


def _settings(topics: DemoTopics) -> SchedulerSettings:
    return SchedulerSettings(
        config={"bootstrap.servers": topics.bootstrap, "log_level": 0},
        topic=scheduler_of(topics.topic).topic,
        allow=[topics.topic],
    )


def run(topics: DemoTopics, make_display: MakeDisplay) -> tuple[Verdict, ...]:
    """Hands failed orders to a scheduler, which returns them to the topic of the orders."""
    with _store() as database:
        service = SchedulerService(database, _settings(topics))
        scheduler = scheduler_of(topics.topic)
        verdicts = play(topics, scheduler, lambda *_: service, make_display, _LATENCY_S)
        return (*verdicts, _nothing_left(database))


def _nothing_left(database: Database) -> Verdict:
    with database.reading() as connection:
        waiting = statistics.waiting(database, connection, "scheduler")
        dead = statistics.dead(connection, "scheduler")
    left = sum(each.waiting for each in waiting)
    refused = sum(each.count for each in dead)
    return Verdict(
        "nothing is left in the store",
        f"{left} waiting, {refused} refused",
        (*(str(each) for each in waiting), *(str(each) for each in dead)),
    )


@contextmanager
def _store() -> Iterator[Database]:
    with TemporaryDirectory(prefix="linear-retry-demo-") as directory:
        database = Database(f"sqlite:///{Path(directory) / 'store.sqlite3'}")
        migrate(database)
        try:
            yield database
        finally:
            database.close()
