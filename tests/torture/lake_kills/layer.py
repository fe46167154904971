"""The layer: an ingest into a lake is killed again and again, and another one goes on."""

import random
import tempfile
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

from deltalake import DeltaTable
from deltalake.exceptions import TableNotFoundError

from linear_retry.spark import DEAD_LETTERS
from tests.dlq.sample_letters import our_record
from tests.real_kafka import RealKafka
from tests.spark.conftest import with_s3a
from tests.spark.ingestion.object_store import object_store
from tests.spark.killed import BATCH, POINTS, ingest_until
from tests.torture.layer import Counts, OnBroker

_BATCHES = 4
_KILLS = 3
"""Each ends one batch at most: the last one comes to its end."""


def play(seed: int, kafka: RealKafka) -> Counts:
    """Readers find whole batches after each kill, and in the end each letter once; every second
    lake is on an object store."""
    rng = random.Random(seed)
    letters = f"killed-{seed}-{time.time_ns()}"
    kafka.create_topic(letters, 2)
    records = [our_record(number) for number in range(_BATCHES * BATCH)]
    written = kafka.produce(
        letters, [(n % 2, each.key, each.value, each.headers) for n, each in enumerate(records)]
    )
    points = rng.choices([*POINTS], k=rng.randint(1, _KILLS))
    with _lake(on_object_store=bool(seed % 2)) as lake:
        for point in (*points, ""):
            ingest_until(point, kafka.bootstrap, letters, lake.path, lake.settings)
            found = lake.places()
            assert len(found) % BATCH == 0, f"{points}: {len(found)} rows after {point!r}"
            assert len(found) == len(set(found)), f"{points}: twice after {point!r}"
        assert sorted(found) == sorted(written), f"{points}: {len(found)} of {len(written)}"
    return Counter({"kills": len(points), **Counter(f"killed when {each}" for each in points)})


@dataclass(frozen=True, slots=True)
class _Lake:
    path: str
    settings: dict[str, str]
    """Of a session that writes it."""
    table: str
    options: dict[str, str]
    """Where a reader without Spark finds its letters."""

    def places(self) -> list[tuple[int, int]]:
        try:
            table = DeltaTable(self.table, storage_options=self.options)
        except TableNotFoundError:  # killed before it was made
            return []
        rows = table.to_pyarrow_table(columns=["partition", "offset"]).to_pylist()
        return [(row["partition"], row["offset"]) for row in rows]


@contextmanager
def _lake(*, on_object_store: bool) -> Iterator[_Lake]:
    if on_object_store:
        with object_store() as store:
            settings = {f"spark.hadoop.{name}": value for name, value in store.hadoop().items()}
            settings |= {"spark.jars": with_s3a()["spark.jars"]}
            yield _Lake(store.lake, settings, store.place(DEAD_LETTERS), store.reader())
    else:
        with tempfile.TemporaryDirectory() as path:
            yield _Lake(path, {}, f"{path}/{DEAD_LETTERS}", {})


# None in `make test`, where tests/spark kills one on files; its long tests, one on an object store.
LAKE_KILLS = OnBroker("lake-kills", "plays", 0, 40, play)
