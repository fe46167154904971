"""A scheduler that runs in a thread of the test, and what it needs."""

import time
from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

from sqlalchemy import func, select

from linear_retry.kafka.consumer.messages import read
from linear_retry.records.record import Record
from linear_retry.scheduler.service import SchedulerService, SchedulerSettings
from linear_retry.scheduler.start import row_of, stored_places
from linear_retry.store.application.places import claim, key_of, put
from linear_retry.store.database import Database
from linear_retry.store.schema import dead_letter, inbox_place, message
from tests.kafka_operations import Headers, wait_until
from tests.patience import PATIENCE_S
from tests.real_kafka import RealKafka


def request(destination: str, in_s: float = 0.0, *more: tuple[str, bytes | None]) -> Headers:
    """The headers of a record that is to be sent so many seconds from now."""
    at_ms = round((time.time() + in_s) * 1000)
    return [("retry-destination", destination.encode()), ("retry-at-ms", b"%d" % at_ms), *more]


def records(kafka: RealKafka, topic: str) -> list[Record]:
    """What is in the topic now, for readers of committed messages."""
    return [read(each) for each in kafka.read(topic)]


def counts(database: Database) -> tuple[int, int]:
    """How many messages wait, and how many are dead."""
    with database.reading() as connection:
        return (
            connection.execute(select(func.count()).select_from(message)).scalar_one(),
            connection.execute(select(func.count()).select_from(dead_letter)).scalar_one(),
        )


def places(kafka: RealKafka, database: Database, topic: str) -> dict[int, int]:
    """Where the store continues in each partition of the topic that it knows."""
    row = row_of(kafka.client_settings(), (topic, 0))
    with database.reading() as connection:
        return stored_places(connection, row.topic_id)


def put_place(kafka: RealKafka, database: Database, topic: str, offset: int) -> None:
    """Lets the store continue there in partition 0, as an older copy of it does."""
    row = row_of(kafka.client_settings(), (topic, 0))
    with database.begin() as connection:
        rows = connection.execute(select(inbox_place.c.epoch).filter_by(**key_of(row)))
        epoch = rows.scalar()
        if epoch is None:
            claimed = claim(connection, database, row, topic, "nobody")
            assert claimed is not None
            epoch = claimed.epoch
        put(connection, database, row, epoch, offset)


def settings(kafka: RealKafka, topic: str, **more: Any) -> SchedulerSettings:
    """Those of a scheduler that may send anywhere; its sessions are short."""
    config = kafka.client_settings(
        **{"session.timeout.ms": 2000, "heartbeat.interval.ms": 300, **more.pop("config", {})}
    )
    return SchedulerSettings(config=config, topic=topic, **{"allow": ("*",), **more})


@dataclass(frozen=True, slots=True)
class Running:
    """The service, and what its `run` has ended with."""

    kafka: RealKafka
    service: SchedulerService
    ended: Future[None]

    def wait_for(self, topic: str, count: int) -> list[Record]:
        """The records in the topic, once there are so many."""
        found: list[Record] = []

        def are_there() -> bool:
            if self.ended.done():
                self.ended.result()
            found[:] = records(self.kafka, topic)
            return len(found) >= count

        wait_until(are_there, f"{count} records in {topic}", lambda: [len(found), found[-3:]])
        return found

    def wait_for_end(self) -> None:
        """Until it ends by itself."""
        wait_until(self.ended.done, "it ends")


@contextmanager
def running(kafka: RealKafka, database: Database, wanted: SchedulerSettings) -> Iterator[Running]:
    """The service, until the `with` is left: then it must end within 30 s, without an error."""
    service = SchedulerService(database, wanted)
    with ThreadPoolExecutor(1) as pool:
        ended = pool.submit(service.run)
        try:
            yield Running(kafka, service, ended)
        finally:
            service.stop()
        ended.result(PATIENCE_S)
