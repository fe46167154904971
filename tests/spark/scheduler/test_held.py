"""What waits comes out of the state as it went in, in order."""

from hypothesis import given
from hypothesis import strategies as st

from linear_retry.spark.scheduler.held import (
    AHEAD_MS,
    BUCKET_MS,
    Held,
    bucket_of,
    bucket_of_timer,
    pack,
    timer_of,
    unpack,
)
from linear_retry.store import header_bytes

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
    """Several chunks of one bucket are read as one, by due time, then by place."""
    found = unpack(b"".join(map(pack, chunks)))
    messages = [each for chunk in chunks for each in chunk]
    assert sorted(messages, key=lambda each: each[:3]) == found


@given(st.integers(0, 2**45))
def test_a_bucket_is_taken_before_its_first_message(due_ms: int) -> None:
    """And its timer names it; what is due since long ago is in one of the first buckets."""
    bucket = bucket_of(due_ms)
    assert bucket == bucket_of_timer(timer_of(bucket))
    assert timer_of(bucket) > 0
    if due_ms > 2 * AHEAD_MS:
        assert timer_of(bucket) + AHEAD_MS <= due_ms < bucket + BUCKET_MS
