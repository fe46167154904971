"""Records become chunks: who is in which shard and bucket, and what cannot be sent."""

import time
from collections.abc import Sequence
from itertools import chain

import pyarrow as pa  # type: ignore[import-untyped]  # it has no types

from linear_retry.records.text import Header
from linear_retry.scheduler.destinations import Destinations
from linear_retry.spark.scheduler.held import Held, bucket_of, unpack
from linear_retry.spark.scheduler.intake import Intake
from linear_retry.store import header_bytes

_HEADERS = pa.list_(pa.struct([("key", pa.string()), ("value", pa.binary())]))
_SHARDS = (5, 9, 11)


def _chunks(*records: Sequence[Header] | None) -> dict[tuple[int, int], list[Held]]:
    """By shard and bucket; the records are those of partition 3 from its first offset."""
    count = len(records)
    given = [
        None if headers is None else [{"key": key, "value": value} for key, value in headers]
        for headers in records
    ]
    arrays = [
        pa.array([b"key"] * count, pa.binary()),
        pa.array([None] * count, pa.binary()),
        pa.array([3] * count, pa.int32()),
        pa.array(range(count), pa.int64()),
        pa.array(given, _HEADERS),
    ]
    batch = pa.record_batch(arrays, names=["key", "value", "partition", "offset", "headers"])
    intake = Intake(Destinations("intake", ("orders*",), "lost"), _SHARDS)
    rows = chain.from_iterable(each.to_pylist() for each in intake([batch]))
    return {(row["shard"], row["bucket"]): unpack(row["content"]) for row in rows}


def _request(topic: str, at_ms: int, *more: Header) -> Sequence[Header]:
    return (("retry-destination", topic.encode()), ("retry-at-ms", b"%d" % at_ms), *more)


def test_a_target_partition_has_one_shard() -> None:
    """Whatever the times are, and whoever sends: else no task could keep its order."""
    partition = ("retry-original-partition", b"4")
    times_ms = range(2**40, 2**40 + 5_000, 100)
    found = _chunks(*(_request("orders", at_ms, partition) for at_ms in times_ms))
    assert (
        1 == len({shard for shard, _ in found}) == len({shard for shard, _ in found} & {*_SHARDS})
    )
    for (_, bucket), messages in found.items():
        assert {bucket} == {bucket_of(each.due_ms) for each in messages}
    held = list(chain.from_iterable(found.values()))
    assert sorted(times_ms) == sorted(each.due_ms for each in held)
    assert {("orders", 4, 3, None)} == {
        (each.topic, each.to_partition, each.partition, each.reason) for each in held
    }


def test_headers_stay_as_they_are() -> None:
    """In order, with duplicates and nulls."""
    headers = _request("orders", 2**40, ("trace", None), ("trace", b"1"))
    ((held,),) = _chunks(headers).values()
    assert tuple(headers) == header_bytes.read(held.headers)
    assert (b"key", None, None) == (held.key, held.value, held.to_partition)


def test_what_cannot_be_sent_is_due_at_once() -> None:
    """With the reason, for the dead-letter topic; it stops nobody."""
    now_ms = time.time_ns() // 1_000_000
    found = _chunks(None, _request("refunds", 2**40), _request("orders", 2**62))
    held = list(chain.from_iterable(found.values()))
    assert ["unreadable", "not-allowed", "too-far"] == [each.reason for each in held]
    assert all(abs(each.due_ms - now_ms) < 60_000 for each in held)
