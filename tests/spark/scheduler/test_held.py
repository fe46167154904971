"""What waits comes out of the state as it went in, in order."""

import tracemalloc
from collections.abc import Iterator

import pyarrow as pa  # type: ignore[import-untyped]  # it has no types
from hypothesis import given
from hypothesis import strategies as st

from linear_retry.spark.scheduler.held import (
    AHEAD_MS,
    BUCKET_MS,
    PART_BYTES,
    Buckets,
    Held,
    bucket_of,
    bucket_of_timer,
    in_order,
    in_parts,
    pack,
    timer_of,
    unpack,
)
from linear_retry.store import header_bytes
from tests.spark.scheduler.in_memory import InMemory

_INT64 = st.integers(0, 2**63 - 1)
_INT32 = st.integers(0, 2**31 - 1)
_CONTENT = st.none() | st.binary(max_size=8)
_HELD = st.builds(
    Held,
    due_ms=_INT64,
    offset=_INT64,
    partition=_INT32,
    topic=st.text(max_size=8),
    to_partition=st.none() | _INT32,
    key=_CONTENT,
    value=_CONTENT,
    headers=st.lists(st.tuples(st.text(max_size=4), _CONTENT)).map(header_bytes.write),
    reason=st.none() | st.text(max_size=4),
    error=st.none() | st.text(max_size=4),
)


@given(st.lists(st.lists(_HELD, min_size=1), max_size=3))
def test_chunks_may_be_joined(chunks: list[list[Held]]) -> None:
    """Several chunks are read as one, in the order in which they were written."""
    messages = [each for chunk in chunks for each in chunk]
    assert messages == unpack(b"".join(map(pack, chunks)))


@given(st.lists(st.lists(_HELD, min_size=1), max_size=6), st.integers(1, 5), st.integers(1, 5_000))
def test_the_order_of_a_bucket(
    chunks: list[list[Held]], most_messages: int, most_bytes: int
) -> None:
    """By due time, then by place, however much of it may be in memory."""
    found = in_order(map(pack, chunks), most_messages, most_bytes)
    messages = [each for chunk in chunks for each in chunk]
    assert sorted(messages, key=lambda each: each[:3]) == list(found)


@given(st.lists(_HELD), st.integers(1, 5), st.integers(1, 50))
def test_parts_of_a_bucket(messages: list[Held], most_messages: int, most_bytes: int) -> None:
    """They follow one another, and none is larger than it has to be."""
    parts = list(in_parts(messages, most_messages, most_bytes))
    assert messages == [each for part in parts for each in part]
    for part in parts:
        assert 1 <= len(part) <= most_messages
        assert sum(each.size_bytes for each in part[:-1]) < most_bytes


def test_a_bucket_larger_than_memory() -> None:
    """A bucket of which only a part may be in memory is never there as a whole."""
    value, most_bytes, chunks = b"x" * 10_000, 1_000_000, 100

    def written() -> Iterator[bytes]:
        for number in range(chunks):
            places = [(100 * row + number, number) for row in range(50)]
            yield pack([Held(due, n, 0, "t", 0, None, value, b"") for due, n in places])

    tracemalloc.start()
    try:
        before = pa.default_memory_pool().max_memory()
        due = [part[-1].due_ms for part in in_parts(in_order(written(), 1_000, most_bytes), 10)]
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert sorted(due) == due
    assert chunks * 50 // 10 == len(due)
    total = chunks * 50 * len(value)
    assert peak < total / 5
    assert pa.default_memory_pool().max_memory() - before < total / 5


@given(st.integers(0, 2**45))
def test_a_bucket_is_taken_before_its_first_message(due_ms: int) -> None:
    """And its timer names it; what is due since long ago is in one of the first buckets."""
    bucket = bucket_of(due_ms)
    assert bucket == bucket_of_timer(timer_of(bucket))
    assert timer_of(bucket) > 0
    if due_ms > 2 * AHEAD_MS:
        assert timer_of(bucket) + AHEAD_MS <= due_ms < bucket + BUCKET_MS


_EDGES = st.sampled_from([PART_BYTES - 1, PART_BYTES, PART_BYTES + 1, 2 * PART_BYTES])
_CHUNKS = st.lists((st.integers(1, 5) | _EDGES).map(bytes), min_size=1, max_size=4)


@given(_CHUNKS)
def test_chunks_of_any_size(chunks: list[bytes]) -> None:
    """A bucket gives back each chunk, in the order in which they came, and is empty then."""
    state = InMemory()
    buckets = Buckets(state.handle)
    assert [True] + [False] * (len(chunks) - 1) == [buckets.append(500, each) for each in chunks]
    assert buckets.append(1_000, b"other")
    assert chunks == list(buckets.take(500))
    assert [b"other"] == list(buckets.take(1_000))
    assert state.is_empty
