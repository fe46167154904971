"""There are never more messages in a second than the rate allows."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from linear_retry.dlq.replay.replaying import LARGEST_BATCH, RateLimit


class _Clock:
    def __init__(self) -> None:
        self.now_s = 0.0

    def __call__(self) -> float:
        return self.now_s

    def wait(self, seconds: float) -> None:
        assert 0 < seconds <= 0.5
        self.now_s += seconds


@given(st.floats(0.1, 1e6), st.lists(st.floats(0, 5), max_size=20))
def test_never_more_than_the_rate(rate: float, took_s: list[float]) -> None:
    """However long each batch takes: before each, all before it have had their time."""
    clock = _Clock()
    rate_limit = RateLimit(rate, 7, clock, clock.wait)
    sent = 0
    for batch_s in took_s:
        rate_limit.acquire(rate_limit.largest_batch)
        assert clock.now_s + 1e-6 >= sent / rate
        sent += rate_limit.largest_batch
        clock.now_s += batch_s


def test_a_slow_rate_has_small_batches() -> None:
    """About half a second's, at least one message."""
    assert [1, 1, 50, LARGEST_BATCH] == [
        RateLimit(rate).largest_batch for rate in (0.1, 2, 100, 1e6)
    ]


def test_without_a_rate_nothing_is_waited_for() -> None:
    """As fast as it goes."""
    rate_limit = RateLimit(None, now_s=lambda: 0.0, wait=lambda _: None)
    rate_limit.acquire(1000)
    rate_limit.acquire(1000)
    assert LARGEST_BATCH == rate_limit.largest_batch


def test_a_stall_is_not_made_up_for() -> None:
    """After a broker had stood still for a minute, a minute's messages went out in one burst."""
    clock = _Clock()
    rate_limit = RateLimit(10, 5, clock, clock.wait)
    rate_limit.acquire(5)
    clock.now_s += 60
    begun_s = []
    for _ in range(3):
        rate_limit.acquire(5)
        begun_s.append(clock.now_s)
    assert [60.0, 60.5, 61.0] == begun_s


def test_a_wait_may_be_ended() -> None:
    """A replay at a low rate was deaf to its cancellation, and sent one more batch."""
    clock = _Clock()
    rate_limit = RateLimit(0.1, 1, clock, clock.wait)
    rate_limit.acquire(1)

    def cancelled() -> None:
        if clock.now_s >= 1:
            raise InterruptedError

    with pytest.raises(InterruptedError):
        rate_limit.acquire(1, cancelled)
    assert 1.0 == clock.now_s
