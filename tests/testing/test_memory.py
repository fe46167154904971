"""The memory of guarantees over days."""

import tracemalloc
from collections.abc import Iterator

from linear_retry import events
from linear_retry.testing import Entry, Guarantee, all_guarantees
from tests.testing.logs import P0, assigned, attempt, committed, emitted, opened


def _days(amount: int) -> Iterator[Entry]:
    """A log of so many messages, some of which fail once."""
    yield assigned(0.0)
    for offset in range(amount):
        if offset % 10 == 0:
            yield from attempt(offset, offset, outcome="failed")
            yield opened(offset, offset)
            yield from attempt(offset + 1.5, offset)
            scope = opened(0, 0).event.scope  # type: ignore[union-attr]  # a CircuitOpened
            yield emitted(offset + 1.5, events.CircuitClosed(scope, "recovered", 1))
        else:
            yield from attempt(offset + 1.5, offset)
        if offset % 50 == 0:
            yield committed(offset + 1.6, offset, 0)


def _kept_bytes(amount: int) -> int:
    """What the guarantees keep of such a log, which nobody else keeps."""
    chosen: list[Guarantee] = list(all_guarantees({}, strategy_length=2))
    tracemalloc.start()
    try:
        for entry in _days(amount):
            for guarantee in chosen:
                guarantee.feed(entry)
        return tracemalloc.get_traced_memory()[0]
    finally:
        tracemalloc.stop()


def test_days_take_no_more_room_than_hours() -> None:
    """Fed without a log being kept, as a consumer that runs for days is watched."""
    # From a log so long that what is bounded is at its bound: 500 messages do not fill it.
    assert _kept_bytes(16_000) < 2 * _kept_bytes(4_000)


def test_what_retention_took_takes_no_room() -> None:
    """A hundred million offsets that are gone are two numbers."""
    chosen: list[Guarantee] = list(all_guarantees({}, strategy_length=2))
    lost = emitted(1, events.DataLost(*P0, 0, 100_000_000))
    for entry in (assigned(0), lost, *attempt(2, 100_000_000)):
        for guarantee in chosen:
            guarantee.feed(entry)
    assert [] == [violation for one in chosen for violation in one.violations([])]
