"""Measures how fast the scheduler's intake stores records."""

import time

from sqlalchemy import Connection

from benchmarks.figures import Figure, Result, Target
from benchmarks.scale import Scale
from benchmarks.stores import postgres_store, sqlite_store
from benchmarks.topics import PARTITIONS, VALUE_BYTES, config_of_new_group, filled_topic
from linear_retry import LinearConsumer
from linear_retry.errors import StoreError
from linear_retry.kafka import Message
from linear_retry.records.dead_letter import FailureInfo, to_dead_letter
from linear_retry.records.lineage import Hop
from linear_retry.records.record import Record
from linear_retry.records.text import Header
from linear_retry.scheduler.destinations import Destinations
from linear_retry.scheduler.intake import Intake
from linear_retry.store.database import Database
from tests.postgres import Postgres
from tests.real_kafka import RealKafka

_SOON_MS = 1_900_000_000_000
_RATE = Target("at least", 5_000.0)
_SQLITE_RATE = Target("at least", 3_000.0)


def run(kafka: RealKafka, scale: Scale) -> Result:
    """Both stores take turns."""
    topic = filled_topic(kafka, scale.sent_messages, headers=_headers())
    rates: dict[str, list[float]] = {"PostgreSQL": [], "SQLite": []}
    with Postgres() as postgres:
        for _ in range(scale.rounds):
            for name, store in {
                "PostgreSQL": postgres_store(postgres),
                "SQLite": sqlite_store(),
            }.items():
                with store as database:
                    rates[name].append(_rate(kafka, database, topic, scale.sent_messages))
    return Result(
        (
            Figure("PostgreSQL", "records/s", tuple(rates["PostgreSQL"]), _RATE),
            Figure("SQLite", "records/s", tuple(rates["SQLite"]), _SQLITE_RATE),
        ),
        notes=(
            f"values of {VALUE_BYTES} bytes in {PARTITIONS} partitions, with the headers of a "
            "consumer's",
        ),
    )


def _headers() -> list[Header]:
    """Those of a message that has failed twice and left its line."""
    record = Record("orders", 3, 7, 1_767_225_600_000, None, b"")
    failure = FailureInfo(
        *("billing", "transient", 2, 1_767_225_600_000, 1_767_225_601_000, "inline@0123456789ab"),
        hop=Hop("billing.scheduled", 1, "inline@0123456789ab", _SOON_MS),
    )
    return to_dead_letter(record, failure).headers()


def _rate(kafka: RealKafka, database: Database, topic: str, amount: int) -> float:
    """Records a second, from the end of the first batch to that of the last."""
    intake = Intake(database, Destinations(topic, ("orders",)), kafka.client_settings())
    ends_s: list[float] = []
    counts: list[int] = []
    consumer = LinearConsumer(
        config_of_new_group(kafka),
        [topic],
        strategy=[1],
        transient=StoreError,
        on_exhausted="repeat",
        on_permanent="stop",
        inbox=intake,
    )

    def store(batch: list[Message], transaction: Connection) -> None:
        intake.store(batch, transaction)
        ends_s.append(time.perf_counter())
        counts.append(len(batch))
        if sum(counts) >= amount:
            consumer.stop()

    with consumer:
        consumer.run_batches(store)
    return sum(counts[1:]) / (ends_s[-1] - ends_s[0])
