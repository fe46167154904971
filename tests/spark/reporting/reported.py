"""A lake of three groups, as `ingest` and `episodes` leave it, with hostile texts."""

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow as pa  # type: ignore[import-untyped]  # it has no types
from deltalake import write_deltalake

from linear_retry.events import CircuitClosed, CircuitOpened, DataLost
from linear_retry.journal.entry import Entry
from linear_retry.records.dead_letter import FailureInfo, to_dead_letter
from linear_retry.records.record import Record
from linear_retry.records.text import ErrorText
from linear_retry.scope import Scope
from linear_retry.spark import dead_letters
from linear_retry.spark.lake.lake import DEAD_LETTERS, Lake
from tests.report.frames import HOSTILE
from tests.spark.history.expected_episodes import expected_episodes
from tests.spark.history.recorded_outages import NOON_MS, instance
from tests.spark.records import frame

DELAYS_MS = (1000, 5000, 30_000, 60_000)
LENGTHS_MS = (900, 1500, 4000, 20_000, 50_000, 900, 2500, 40_000, 700, 3000)
_WHOLE, _TEXT = pa.int64(), pa.string()
_PROBE = {"sequence": _WHOLE, "due_ms": _WHOLE, "at_ms": _WHOLE, "failures": _WHOLE, "error": _TEXT}
_EPISODE = {
    **dict.fromkeys(("group", "member", "instance", "scope_topic"), _TEXT),
    "scope_partition": _WHOLE,
    **dict.fromkeys(("sequence", "last_sequence"), _WHOLE),
    "kind": _TEXT,
    **dict.fromkeys(("opened_at_ms", "last_at_ms", "closed_at_ms", "retry_at_ms"), _WHOLE),
    "outcome": _TEXT,
    "open_s": pa.float64(),
    "message_topic": _TEXT,
    **dict.fromkeys(("message_partition", "message_offset"), _WHOLE),
    "error": _TEXT,
    "error_type": _TEXT,
    "probes": pa.list_(pa.struct(list(_PROBE.items()))),
    **dict.fromkeys(("letters", "letters_failed", "missing", "lower_ms", "upper_ms"), _WHOLE),
    "clock_ms": _WHOLE,
}
_JOURNAL = {
    **dict.fromkeys(("group", "event", "event_id", "instance", "problems"), _TEXT),
    **dict.fromkeys(("at_ms", "sequence", "failures"), _WHOLE),
    "delay_s": pa.float64(),
}


def make(lake: Lake) -> None:
    """The outages by the law in plain Python and by Arrow: Spark would take half a minute."""
    entries = list(_journal())
    rows = [dict(zip(_EPISODE, each, strict=True)) for each in expected_episodes(entries)]
    for row in rows:
        row["probes"] = [dict(zip(_PROBE, each, strict=True)) for each in row["probes"]]
    _write(Path(lake.path) / "episodes", rows, _EPISODE)
    journal = [
        {
            "group": each.group,
            "event": type(each.event).__name__,
            "event_id": f"{each.instance}/{each.sequence}",
            "at_ms": each.at_ms,
            "problems": None,
            "instance": each.instance,
            "sequence": each.sequence,
            "failures": getattr(each.event, "failures", None),
            "delay_s": getattr(each.event, "delay_s", None),
        }
        for each in entries
    ]
    _write(Path(lake.path) / "journal", journal, _JOURNAL)
    letters = dead_letters(frame(lake.spark, _letters()))
    lake.replace(letters, DEAD_LETTERS)


def _write(place: Path, rows: list[dict[str, Any]], columns: dict[str, Any]) -> None:
    write_deltalake(place, pa.Table.from_pylist(rows, pa.schema(list(columns.items()))))


def _journal() -> Iterator[Entry]:
    yield from instance("billing", LENGTHS_MS, DELAYS_MS)
    for entry in instance("stock", [10**7] * 6, DELAYS_MS):  # none of them recovers
        event = entry.event
        if isinstance(event, CircuitOpened):
            event = replace(event, error="shop.NoSuchItem('7')")
        yield replace(entry, event=event)
    yield Entry("lost", 1, NOON_MS, HOSTILE, "pod", DataLost("orders", 0, 1, 9))
    yield Entry("lost", 2, NOON_MS + 5, HOSTILE, "pod", CircuitClosed(Scope(), "recovered", 0.005))
    yield Entry(
        "lost", 3, NOON_MS + 60_000, HOSTILE, "pod", CircuitClosed(Scope(), "sent-to-retry", 0.0)
    )


def _letters() -> Iterator[Record]:
    refused = ErrorText("builtins.ConnectionError", f"no {HOSTILE}", None)
    for number in range(12):
        key = (b"customer-4711", b"\xff\x00", None, HOSTILE.encode())[number % 4]
        yield _letter(number, key, "permanent", "stock", refused)
    yield _letter(12, b"customer-4711", "exhausted", "billing", refused)
    again = _letter(13, b"k", "exhausted", "billing", refused)
    yield from (again, replace(again, offset=14))
    waiting = _letter(16, b"k", "transient", "billing", refused)  # no letter
    headers = dict(waiting.headers) | {"retry-send-to": b"retry", "retry-step": b"1"}
    yield replace(waiting, topic="orders.retry.5m", headers=tuple(headers.items()))
    yield Record("orders.dlq", 0, 15, NOON_MS, b"\xfe", None, ())


def _letter(number: int, key: bytes | None, reason: str, group: str, error: ErrorText) -> Record:
    at_ms = NOON_MS + number * 60_000
    dead = Record("orders", 3, number, at_ms, key, b"{}", ())
    failure = FailureInfo(group, reason, 2, at_ms, at_ms + 4000, "short-outage@0123456789ab", error)
    headers = tuple(to_dead_letter(dead, failure).headers())
    return Record("orders.dlq", 0, number, at_ms + 4100, key, b"{}", headers)
