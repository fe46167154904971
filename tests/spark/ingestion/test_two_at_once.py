"""Two ingests at once, in two processes, on one lake and one checkpoint."""

import time
from pathlib import Path

import pytest
from deltalake import DeltaTable
from pyspark.sql import SparkSession

from linear_retry.spark import DEAD_LETTERS, LakeError, ingest
from tests.conftest import TopicFactory
from tests.dlq.sample_letters import our_record
from tests.real_kafka import RealKafka
from tests.spark.beside import beside, said_by

pytestmark = [pytest.mark.broker, pytest.mark.long, pytest.mark.usefixtures("interpreted")]

_LIMIT_S = 240.0
_SAID = "another ingest is adding the rows of"


class _EnoughError(Exception):
    pass


@pytest.mark.usefixtures("only_places")
def test_of_two_ingests_one_wins(
    spark: SparkSession, kafka: RealKafka, topic: TopicFactory, tmp_path: Path
) -> None:
    """The other ends with one sentence and an exit code; nothing is lost, and nothing is there
    twice."""
    letters, lake, record = topic(partitions=2), str(tmp_path / "lake"), our_record()
    config, written = {"bootstrap.servers": kafka.bootstrap}, list[tuple[int, int]]()
    until_s = time.monotonic() + _LIMIT_S
    options = ("--lake", lake, "--dead-letters", letters, "--bootstrap", kafka.bootstrap)
    with beside("spark", "ingest", *options, "--continuous", "--every", "1s") as child:

        def more(done: int, total: int) -> None:
            sent = [(number, record.key, record.value, record.headers) for number in range(2)]
            written.extend(kafka.produce(letters, sent))
            if child.poll() is not None or time.monotonic() > until_s:
                raise _EnoughError

        with pytest.raises((_EnoughError, LakeError)) as ended:
            ingest(spark, config, lake, dead_letters=[letters], every_s=1, progress=more)
        if ended.type is _EnoughError:
            said, code = said_by(child), child.returncode
        else:
            said, code = str(ended.value), child.poll()
    assert _SAID in said
    assert (code not in (None, 0)) == (ended.type is _EnoughError)
    ingest(spark, config, lake, dead_letters=[letters])
    rows = DeltaTable(f"{lake}/{DEAD_LETTERS}").to_pyarrow_table(columns=["partition", "offset"])
    assert sorted(written) == sorted(
        (each["partition"], each["offset"]) for each in rows.to_pylist()
    )
