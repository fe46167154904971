"""Writes the tables `journal` and `episodes` of outages that a consumer has waited out."""

from collections.abc import Iterable, Iterator, Sequence
from datetime import UTC, datetime, timedelta
from itertools import count
from pathlib import Path
from typing import Any

import pyarrow as pa  # type: ignore[import-untyped]  # it has no types
from deltalake import write_deltalake

from linear_retry.events import CircuitClosed, CircuitOpened, DeadLettered, Event, ProbeFailed
from linear_retry.journal.entry import Entry
from linear_retry.scope import Scope
from tests.spark.history.expected_episodes import expected_episodes

NOON_MS = 1_795_262_400_000
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_DAY_MS = 24 * 3_600_000
_ERROR = "ConnectionError('refused')"
_PLACE = Scope(), "orders", 3
PROBE = ("sequence", "due_ms", "at_ms", "failures", "error")
_READ = (
    *("group", "member", "instance", "sequence", "kind"),
    *("opened_at_ms", "last_at_ms", "retry_at_ms", "outcome", "open_s", "lower_ms", "upper_ms"),
    *("message_topic", "message_partition", "message_offset", "error", "error_type"),
    *("letters", "missing", "clock_ms"),
)
EPISODE = (
    *("group", "member", "instance", "scope_topic", "scope_partition"),
    *("sequence", "last_sequence", "kind"),
    *("opened_at_ms", "last_at_ms", "closed_at_ms", "retry_at_ms", "outcome", "open_s"),
    *("message_topic", "message_partition", "message_offset", "error", "error_type"),
    *("probes", "letters", "letters_failed", "missing", "lower_ms", "upper_ms"),
    "clock_ms",
)


def instance(
    group: str, durations_ms: Iterable[float], delays_ms: Sequence[int]
) -> Iterator[Entry]:
    """One outage every week, of each duration; what outlasts the delays is a dead letter."""
    sequence = count(1)
    for number, duration_ms in enumerate(durations_ms):
        for at_ms, event in _outage(NOON_MS + number * 7 * _DAY_MS, number, duration_ms, delays_ms):
            yield Entry(f"{group}-life", next(sequence), at_ms, group, "pod", event)


def _outage(
    opened_ms: int, offset: int, duration_ms: float, delays_ms: Sequence[int]
) -> Iterator[tuple[int, Event]]:
    at_ms = opened_ms
    for failures, delay_ms in enumerate(delays_ms, 1):
        kind = CircuitOpened if failures == 1 else ProbeFailed
        retry_at = _EPOCH + timedelta(milliseconds=at_ms + delay_ms)
        yield at_ms, kind(*_PLACE, offset, _ERROR, failures, delay_ms / 1000, retry_at)
        at_ms += delay_ms
        if at_ms - opened_ms >= duration_ms:
            yield at_ms, CircuitClosed(Scope(), "recovered", (at_ms - opened_ms) / 1000)
            return
    letter = ("dlq", f"id/{offset}", 1, "exhausted", _ERROR, len(delays_ms) + 1, ())
    yield at_ms, DeadLettered("orders", 3, offset, *letter)
    yield at_ms, CircuitClosed(Scope(), "dead-lettered", (at_ms - opened_ms) / 1000)


def write_journal(root: Path, entries: Iterable[Entry]) -> None:
    """Writes both tables into the directory, as Spark would have made them of the journal.

    With `expected_episodes` and Arrow: Spark would take half a minute for it.
    """
    entries = list(entries)
    journal = [
        {
            **{name: getattr(entry, name) for name in ("group", "instance", "sequence", "at_ms")},
            "event": type(entry.event).__name__,
            "failures": getattr(entry.event, "failures", None),
            "delay_s": getattr(entry.event, "delay_s", None),
        }
        for entry in entries
    ]
    _write(root / "journal", journal)
    rows = (dict(zip(EPISODE, each, strict=True)) for each in expected_episodes(entries))
    _write(root / "episodes", [_kept(row) for row in rows])


def _kept(row: dict[str, Any]) -> dict[str, Any]:
    probes = [dict(zip(PROBE, each, strict=True)) for each in row["probes"]]
    return {name: row[name] for name in _READ} | {"probes": probes}


def _write(place: Path, rows: list[dict[str, Any]]) -> None:
    rows_only = pa.Table.from_pylist(rows)
    # A column in which nothing is known would else have no type, and Spark would not see it.
    known = [
        each if each.type != pa.null() else each.with_type(pa.int64()) for each in rows_only.schema
    ]
    write_deltalake(place, rows_only.cast(pa.schema(known)))
