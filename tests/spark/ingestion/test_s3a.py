"""Each record is in its table once on an object store too, where a rename is a copy."""

from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor, wait
from functools import partial
from typing import Any

import pytest
from deltalake import DeltaTable
from pyspark.sql import SparkSession

from linear_retry.spark import DEAD_LETTERS, ingest
from tests.conftest import TopicFactory
from tests.dlq.sample_letters import our_record
from tests.real_kafka import RealKafka
from tests.spark.conftest import with_s3a
from tests.spark.ingestion.object_store import ObjectStore, object_store
from tests.spark.killed import BATCH, ingest_until

pytestmark = [pytest.mark.broker, pytest.mark.long, pytest.mark.usefixtures("interpreted")]


_LOOK_S = 0.05


def _places(store: ObjectStore) -> list[tuple[int, int]]:
    table = DeltaTable(store.place(DEAD_LETTERS), storage_options=store.reader())
    rows = table.to_pyarrow_table(columns=["partition", "offset"]).to_pylist()
    return sorted((row["partition"], row["offset"]) for row in rows)


def _seen_during(store: ObjectStore, call: Callable[[], object]) -> Iterator[int]:
    """Yields how many letters a reader sees, again and again until the call has ended."""
    with ThreadPoolExecutor() as pool:
        calling = pool.submit(call)
        while not wait([calling], _LOOK_S).done:
            found = _places(store)
            assert len(found) == len(set(found))
            yield len(found)
        calling.result()


@pytest.mark.usefixtures("only_places")
def test_killed_on_an_object_store_each_letter_is_there_once(
    spark: SparkSession, kafka: RealKafka, topic: TopicFactory
) -> None:
    """Killed when a batch is committed, and Spark has not noted that, readers find whole batches at
    every moment, also while the next ingest goes on from there, and in the end all letters.
    `make torture` kills at other points, again and again."""
    letters, config = topic(partitions=2), {"bootstrap.servers": kafka.bootstrap}
    records = [our_record(number) for number in range(3 * BATCH)]
    given = [(n % 2, each.key, each.value, each.headers) for n, each in enumerate(records)]
    with object_store() as store:
        jvm: Any = spark._jsc
        for name, value in store.hadoop().items():
            jvm.hadoopConfiguration().set(name, value)
        written = kafka.produce(letters, given[:BATCH])
        ingest(spark, config, store.lake, dead_letters=[letters])
        written += kafka.produce(letters, given[BATCH:])
        settings = {f"spark.hadoop.{name}": value for name, value in store.hadoop().items()}
        settings |= {"spark.jars": with_s3a()["spark.jars"]}
        killed = partial(ingest_until, "committed", kafka.bootstrap, letters, store.lake, settings)
        seen = [*_seen_during(store, killed), len(_places(store))]
        assert BATCH < seen[-1]
        again = partial(ingest, spark, config, store.lake, dead_letters=[letters])
        seen += _seen_during(store, again)
        assert {0} == {count % BATCH for count in seen}
        assert sorted(seen) == seen
        assert sorted(written) == _places(store)
