"""Messages wait in Spark's state, and are sent at their times."""

import json
import logging
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, replace
from pathlib import Path

import pytest
from pyspark.sql import SparkSession
from typer.testing import CliRunner

from linear_retry import DeadLetters, LinearConsumer, Scheduler
from linear_retry.cli import app
from linear_retry.errors import ConfigurationError, UsageError
from linear_retry.kafka import Message
from linear_retry.kafka.consumer.messages import read
from linear_retry.spark.scheduler import draining
from linear_retry.spark.scheduler.checkpoint import Checkpoint, CheckpointError
from linear_retry.spark.scheduler.query import SchedulerOnSpark, start
from linear_retry.spark.scheduler.state import Waiting, waiting
from tests.conftest import TopicFactory
from tests.kafka_operations import Headers, wait_until
from tests.patience import PATIENCE_S
from tests.real_kafka import RealKafka
from tests.spark.records import ANY_TIME, NANOSECONDS
from tests.spark.scheduler.running import (
    arrived,
    now_ms,
    request,
    running,
    scheduler,
    served,
)

pytestmark = pytest.mark.broker

_LOOK_S = 0.5


def test_each_at_its_time(
    spark: SparkSession, kafka: RealKafka, topic: TopicFactory, tmp_path: Path
) -> None:
    """None early, each once, those for one partition in the order of their times, key, value and
    headers as they were; and what cannot be sent is dead, with the reason."""
    one, orders = scheduler(kafka, topic, tmp_path, allow=("topic-*",)), topic(2)
    begun_ms = now_ms()
    due_ms = [begun_ms + 6_000 + (n * 7 % 20) * 150 for n in range(20)]
    sent = [
        (n % 2, b"key", b"%d" % n, request(orders, at_ms, str(n), n % 3))
        for n, at_ms in enumerate(due_ms)
    ]
    refused = (0, b"key", b"x", request("elsewhere", begun_ms, "refused"))
    missing = (0, None, None, request("topic-0", begun_ms, "missing"))
    with running(spark, one):
        kafka.produce(one.topic, [*sent, refused, missing])
        found = arrived(kafka, orders, len(sent))
        letters = arrived(kafka, one.letters, 2)
    by_id = {dict(each.headers)["retry-id"]: each for each in found}
    assert len(sent) == len(found) == len(by_id)
    for n, (_, key, value, headers) in enumerate(sent):
        record = by_id[b"%d" % n]
        assert (key, value, tuple(headers)) == (record.key, record.value, record.headers)
        assert record.timestamp_ms >= due_ms[n]
        if n % 3 < 2:
            assert n % 3 == record.partition
    for partition in range(2):
        given = [n for n in range(20) if n % 3 == partition]
        ours = [int(each.value or b"") for each in found if int(each.value or b"") in given]
        assert sorted(given, key=lambda n: (due_ms[n], n)) == ours
    reasons = {
        headers["retry-id"]: (headers["retry-reason"], headers["retry-destination"])
        for headers in (dict(each.headers) for each in letters)
    }
    assert {
        b"refused": (b"not-allowed", b"elsewhere"),
        b"missing": (b"unknown-topic", b"topic-0"),
    } == reasons


def _soon(retry_id: str, destination: str) -> tuple[int, bytes, bytes, Headers]:
    return 0, b"key", b"soon", request(destination, now_ms(), retry_id)


def test_what_waits_outlives_it_all(
    spark: SparkSession, kafka: RealKafka, topic: TopicFactory, tmp_path: Path
) -> None:
    """A restart, a resize and a drain, ended in between or not, lose nothing of what waits, and
    send none of it early; a checkpoint that was moved or drained cannot be resumed, and one without
    its marker can. What is too large as a dead letter is drained as a reference to its record."""
    small = topic(1, {"max.message.bytes": "10000"})
    one, orders = scheduler(kafka, topic, tmp_path, partitions=2, dead_letters=small), topic()
    later_ms = now_ms() + 3_600_000
    values = [*(b"%d" % n for n in range(7)), b"x" * 40_000]
    waits = [
        (n % 2, b"key", value, request(orders, later_ms + n * 1_000_000, f"{n}"))
        for n, value in enumerate(values)
    ]
    with running(spark, one):
        kafka.produce(one.topic, [*waits, _soon("first", orders)])
        arrived(kafka, orders, 1)
        with pytest.raises(UsageError, match="a scheduler runs on it"):
            draining.drain(spark, one.config, one.topic, _at(spark, one), one.letters)
    _break_marker_and_follow_the_error(spark, one)
    with running(spark, one):
        kafka.produce(one.topic, [_soon("second", orders)])
        arrived(kafka, orders, 2)
    (found,) = waiting(spark, _at(spark, one), later_ms)
    assert Waiting(orders, 8, 1, 4, 8, later_ms, later_ms + 7_000_000) == found
    shown = _ran("stats", "--checkpoint", one.checkpoint, "--json")
    assert asdict(replace(found, due=0, within_hour=1)) == json.loads(shown)
    moved = replace(one, checkpoint=f"{tmp_path}/moved", partitions=3)
    places = (_at(spark, one), _at(spark, moved))
    with pytest.raises(KeyboardInterrupt):
        draining.resize(spark, one.config, one.topic, *places, 3, _killed, quiet_s=_LOOK_S)
    with pytest.raises(ConfigurationError, match="it is not to be used before the resize of"):
        start(spark, moved)
    assert 8 == draining.resize(spark, one.config, one.topic, *places, 3, quiet_s=_LOOK_S)
    with pytest.raises(ConfigurationError, match="it was moved to"):
        start(spark, one)
    with running(spark, moved):
        kafka.produce(one.topic, [_soon("third", orders)])
        ids = [dict(each.headers)["retry-id"] for each in arrived(kafka, orders, 3)]
    assert [b"first", b"second", b"third"] == ids
    kafka.produce(one.topic, [_soon("unread", orders)])
    with pytest.raises(KeyboardInterrupt):
        draining.drain(
            *(spark, one.config, one.topic, _at(spark, moved), one.letters, _killed),
            leaves_unread=True,
            quiet_s=_LOOK_S,
        )
    where = ("--bootstrap", kafka.bootstrap, "--topic", one.topic)
    said = _ran("drain", *where, "--checkpoint", moved.checkpoint, "--to", one.letters, "--yes")
    assert f"sent to {one.letters}: 16 messages; " in said  # each of the two resizes sent eight
    assert f" in {one.topic} were not read\n" in said
    letters = [dict(each.headers) for each in arrived(kafka, one.letters, 8)]
    assert [(b"%d" % n, b"drained", orders.encode()) for n in range(8)] == [
        (each["retry-id"], each["retry-reason"], each["retry-destination"]) for each in letters
    ]
    assert b"reference" == letters[-1]["retry-oversized"]
    with pytest.raises(ConfigurationError, match="it was drained to"):
        start(spark, moved)


def _killed(_: int) -> None:
    raise KeyboardInterrupt


def test_a_consumer_does_not_know_which_scheduler_it_is(
    spark: SparkSession, kafka: RealKafka, topic: TopicFactory, tmp_path: Path
) -> None:
    """A message that leaves a consumer's line comes back to its topic and partition by either: the
    consumer names the topic alone."""
    one, orders, attempts = (
        scheduler(kafka, topic, tmp_path, partitions=1),
        topic(2),
        list[int | None](),
    )
    kafka.produce(orders, [(1, b"key", b"value", ())])

    def handle(message: Message) -> None:
        attempts.append(message.partition())
        if len(attempts) < 3:
            raise OSError("down")

    with (
        running(spark, one),
        LinearConsumer(
            kafka.client_settings(**{"group.id": f"group-of-{orders}"}),
            [orders],
            strategy=[],
            transient=OSError,
            dead_letters=DeadLetters(one.letters),
            on_exhausted=Scheduler(one.topic, strategy=["500ms", "1s"]),
        ) as consumer,
        ThreadPoolExecutor(1) as pool,
    ):
        consuming = pool.submit(consumer.run, handle)
        try:
            wait_until(lambda: len(attempts) == 3, "it is handled", lambda: attempts)
        finally:
            consumer.stop()
        consuming.result(PATIENCE_S)
    assert [1, 1, 1] == attempts
    _, *returned = (dict(each.headers) for each in map(read, kafka.read(orders)))
    assert 1 == len({each["retry-id"] for each in returned})


def test_a_timestamp_that_spark_cannot_hold(
    spark: SparkSession, kafka: RealKafka, topic: TopicFactory, tmp_path: Path
) -> None:
    """One in nanoseconds among others: each is sent, those that come later too. The query failed at
    it, and at the same one whenever it was started again."""
    one = replace(scheduler(kafka, topic, tmp_path, partitions=1), topic=topic(2, ANY_TIME))
    orders = topic()
    due_ms = now_ms() + 5_000
    last = [(1, b"key", b"last", request(orders, due_ms, "last"))]
    for number, at_ms in enumerate((0, NANOSECONDS, 0, -5, 2**63 - 1, 0)):
        kafka.produce(one.topic, [_soon(f"{number}", orders)], at_ms)
    with running(spark, one):
        arrived(kafka, orders, 6)
        kafka.produce(one.topic, [_soon("6", orders)], NANOSECONDS)
        kafka.produce(one.topic, last)
        found = arrived(kafka, orders, 8)
    ids = {dict(each.headers)["retry-id"]: each.timestamp_ms for each in found}
    assert {b"last", *(b"%d" % n for n in range(7))} == ids.keys()
    assert ids[b"last"] >= due_ms


def _break_marker_and_follow_the_error(spark: SparkSession, one: SchedulerOnSpark) -> None:
    (marker,) = Path(one.checkpoint).glob("linear-retry*")
    marker.write_bytes(b"")
    Path(one.checkpoint, f".{marker.name}.crc").unlink()
    with pytest.raises(CheckpointError, match=r"delete that file and run .* --partitions 2"):
        _at(spark, one).marker()
    marker.unlink()


def test_what_waits_needs_no_new_message(
    spark: SparkSession, kafka: RealKafka, topic: TopicFactory, tmp_path: Path
) -> None:
    """Started again between two micro-batches, it goes on, though nothing new comes: else what
    waits would not be sent."""
    one = scheduler(kafka, topic, tmp_path, partitions=1)
    checkpoint = _at(spark, one)
    waits = request(topic(), now_ms() + 3_600_000, "waits")
    kafka.produce(one.topic, [(0, b"key", b"value", waits)])

    def stopped_in_between() -> bool:
        with running(spark, one):
            wait_until(lambda: checkpoint.last_batch() is not None, "one is committed")
        return checkpoint.last_batch() == checkpoint.last_planned()

    wait_until(stopped_in_between, "it is stopped between two")
    before = checkpoint.last_batch() or 0
    with running(spark, one):
        wait_until(lambda: (checkpoint.last_batch() or 0) > before + 1, "they go on")


@pytest.mark.usefixtures("spark")
def test_a_checkpoint_that_is_none(tmp_path: Path) -> None:
    """Nothing waits where no scheduler has run: to say zero would hide a wrong path."""
    at = ["--checkpoint", f"{tmp_path}/none"]
    result = CliRunner().invoke(app, ["spark", "scheduler", "stats", *at])
    assert 2 == result.exit_code
    assert "none: no scheduler has run there; correct the path" in result.stderr


def test_a_file_system_that_is_not_there(spark: SparkSession) -> None:
    """The error of a URI whose file system has no jar is one sentence."""
    with pytest.raises(
        CheckpointError, match=r"^nowhere://x/y: .*No FileSystem for scheme.*; check"
    ):
        Checkpoint(spark, "nowhere://x/y").marker()


def test_a_checkpoint_that_spark_cannot_read(
    spark: SparkSession, kafka: RealKafka, topic: TopicFactory, tmp_path: Path
) -> None:
    """The error of Spark's own files is one sentence too."""
    one = scheduler(kafka, topic, tmp_path)
    Path(one.checkpoint, "metadata").mkdir(parents=True)
    with pytest.raises(CheckpointError, match=r"/state: .*; check the path and its permissions$"):
        start(spark, one)


def test_what_is_not_sent_is_said(
    spark: SparkSession,
    kafka: RealKafka,
    topic: TopicFactory,
    tmp_path: Path,
    caplog: pytest.LogCaptureFixture,
) -> None:
    """The rows of the query go nowhere: one line of the log has the count, and what went wrong,
    also where the micro-batch has read nothing."""
    one = scheduler(kafka, topic, tmp_path)
    checkpoint = _at(spark, one)
    caplog.set_level(logging.WARNING)

    with served(spark, one) as service:
        # The first micro-batch takes seconds, and would both read the message and send it.
        wait_until(lambda: checkpoint.last_batch() is not None, "one is committed")
        kafka.produce(one.topic, [(0, None, None, request("missing", now_ms() + 4_000, "1"))])
        said = f"{one.topic}: 1 dead-lettered, 0 to be sent again; such as missing: topic 'missing'"
        wait_until(lambda: said in caplog.text or service.done(), "it is said")
    assert service.exception() is None
    assert 1 == caplog.text.count(said)


def _ran(*arguments: str) -> str:
    result = CliRunner().invoke(app, ["spark", "scheduler", *arguments])
    assert 0 == result.exit_code, result.output
    return result.stdout


def _at(spark: SparkSession, one: SchedulerOnSpark) -> Checkpoint:
    return Checkpoint(spark, one.checkpoint)
