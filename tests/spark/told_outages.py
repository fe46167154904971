"""What does the journal say of outages that a consumer has waited out?"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from datetime import UTC, datetime, timedelta
from itertools import count

from linear_retry.dead_letter import Record
from linear_retry.events import CircuitClosed, CircuitOpened, DeadLettered, Event, ProbeFailed
from linear_retry.journal_entry import Entry, encode
from linear_retry.scope import Scope
from linear_retry.spark.entries import entries
from linear_retry.spark.lake import JOURNAL, Lake
from linear_retry.spark.outages import outages
from tests.spark.records import frame

NOON_MS = 1_795_262_400_000
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_DAY_MS = 24 * 3_600_000
_ERROR = "ConnectionError('refused')"
_PLACE = Scope(), "orders", 3


def life(group: str, lengths_ms: Iterable[float], delays_ms: Sequence[int]) -> Iterator[Entry]:
    """One outage every week, of each length; what outlasts the delays is a dead letter."""
    sequence = count(1)
    for number, length_ms in enumerate(lengths_ms):
        for at_ms, event in _outage(NOON_MS + number * 7 * _DAY_MS, number, length_ms, delays_ms):
            yield Entry(f"{group}-life", next(sequence), at_ms, group, "pod", event)


def _outage(
    opened_ms: int, offset: int, length_ms: float, delays_ms: Sequence[int]
) -> Iterator[tuple[int, Event]]:
    at_ms = opened_ms
    for failures, delay_ms in enumerate(delays_ms, 1):
        kind = CircuitOpened if failures == 1 else ProbeFailed
        retry_at = _EPOCH + timedelta(milliseconds=at_ms + delay_ms)
        yield at_ms, kind(*_PLACE, offset, _ERROR, failures, delay_ms / 1000, retry_at)
        at_ms += delay_ms
        if at_ms - opened_ms >= length_ms:
            yield at_ms, CircuitClosed(Scope(), "recovered", (at_ms - opened_ms) / 1000)
            return
    letter = ("dlq", f"id/{offset}", 1, "exhausted", _ERROR, len(delays_ms) + 1, ())
    yield at_ms, DeadLettered("orders", 3, offset, *letter)
    yield at_ms, CircuitClosed(Scope(), "dead-lettered", (at_ms - opened_ms) / 1000)


def keep(lake: Lake, told: Iterable[Entry]) -> None:
    """Have the lake hold the journal, and the outages that it tells of."""
    records = [
        Record("journal", 0, offset, NOON_MS, entry.key, encode(entry))
        for offset, entry in enumerate(told)
    ]
    lake.keep(entries(frame(lake.spark, records)), JOURNAL, "journal", 0)
    outages(lake)
