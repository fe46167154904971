"""A repeated error is reported once, and once for each tenfold."""

from linear_retry.log.error_throttle import (
    FORGOTTEN_AFTER_S,
    ErrorThrottle,
)


def test_the_first_and_each_tenfold() -> None:
    """A kind is said at its first coming, its tenth, its hundredth."""
    complaints = ErrorThrottle()
    counts = [complaints.count(1, 0.0) for _ in range(120)]
    assert [1, 10, 100] == [count for count in counts if count]


def test_kinds_that_take_turns() -> None:
    """A broker that is down brings two kinds in turn: each was said each time."""
    complaints = ErrorThrottle()
    counts = [(code, complaints.count(code, 0.0)) for _ in range(20) for code in (1, 2)]
    assert [(1, 1), (2, 1), (1, 10), (2, 10)] == [(code, count) for code, count in counts if count]


def test_what_has_been_quiet_counts_from_one_again() -> None:
    """A kind not heard for a minute is another outage, said again."""
    complaints = ErrorThrottle()
    assert 1 == complaints.count(1, 0.0)
    assert complaints.count(1, FORGOTTEN_AFTER_S) is None
    assert 1 == complaints.count(1, 2 * FORGOTTEN_AFTER_S + 0.1)
