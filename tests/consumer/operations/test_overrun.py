"""A handler that is too slow three times in a row ends the consumer."""

import pytest

from linear_retry.consumer.operations.overrun import SlowHandlerCount, raise_if_fatal
from linear_retry.errors import HandlerTooSlowError
from linear_retry.events import HandlerTooSlow

_P0, _P1 = ("orders", 0), ("orders", 1)


def test_overruns_of_one_offset_are_counted_in_a_row() -> None:
    """Another offset of the same partition begins again, another partition counts by itself."""
    overruns = SlowHandlerCount()
    seen = [(_P0, 7), (_P0, 7), (_P1, 7), (_P0, 8), (_P0, 7), (_P1, 7), (_P0, 7)]
    assert [1, 2, 1, 1, 1, 2, 2] == [overruns.count(*place) for place in seen]


def test_the_third_in_a_row_is_fatal() -> None:
    """Twice may be bad luck; the third raises, with coordinates, both times and the remedy."""
    for attempts in (1, 2):
        raise_if_fatal(HandlerTooSlow(*_P0, 7, 400.0, 300.0, attempts))
    with pytest.raises(HandlerTooSlowError) as caught:
        raise_if_fatal(HandlerTooSlow(*_P0, 7, 400.0, 300.0, 3))
    error = caught.value
    assert ("orders", 0, 7, 0) == (error.topic, error.partition, error.offset, error.failures)
    for part in ("orders[0]@7", "400.0 s", "300 s", "raise max.poll.interval.ms"):
        assert part in str(error)
