"""What is put into buckets is found again in the same pieces."""

from hypothesis import given
from hypothesis import strategies as st

from linear_retry.spark.scheduler.buckets import PART_BYTES, Buckets
from tests.spark.scheduler.in_memory import InMemory

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
