"""Spark's columns agree with what `linear_retry.journal.entry` reads."""

import json
from dataclasses import asdict, fields
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any, get_args, get_type_hints

import pytest
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st
from pyspark.sql import Row, SparkSession

from linear_retry.events import CircuitOpened, CloseOutcome, Event
from linear_retry.journal.entry import LAST_MS, Entry, Process, Unreadable, encode, read_entry
from linear_retry.records.record import Record
from linear_retry.scope import Partition, Scope
from linear_retry.spark import journal
from tests.journal.entry_corpus import CORPUS
from tests.spark.records import Many, frame

_TEXT = st.text(st.characters(exclude_categories=["Cs"]), max_size=12)
_WHOLE = st.integers(-(2**63), 2**63 - 1)
_SCOPES = st.just(Scope()) | st.builds(Scope, _TEXT, st.none() | _WHOLE)
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_BY_TYPE: dict[Any, st.SearchStrategy[Any]] = {
    str: _TEXT,
    str | None: st.none() | _TEXT,
    int: _WHOLE,
    int | None: st.none() | _WHOLE,
    float: st.floats(allow_nan=False, allow_infinity=False),
    bool: st.booleans(),
    datetime: st.integers(0, 10**13).map(lambda ms: _EPOCH + timedelta(milliseconds=ms)),
    CloseOutcome: st.sampled_from(get_args(CloseOutcome)),
    Scope: _SCOPES,
    tuple[Partition, ...]: st.lists(st.tuples(_TEXT, _WHOLE), max_size=3).map(tuple),
    tuple[str, ...]: st.lists(_TEXT, max_size=3).map(tuple),
}


def _events() -> st.SearchStrategy[Event]:
    return st.one_of(
        *(
            st.builds(kind, **{name: _BY_TYPE[hint] for name, hint in get_type_hints(kind).items()})
            for kind in get_args(Event)
        )
    )


_ENTRIES = st.builds(
    Entry,
    _TEXT.filter(bool),
    st.integers(0, 10**18),
    *(st.integers(0, LAST_MS), _TEXT, _TEXT, _events()),
    st.none() | st.builds(Process, _TEXT, _WHOLE, _TEXT),
)
_WRONG: st.SearchStrategy[Any] = (
    st.none() | st.booleans() | _TEXT | st.just([]) | st.just({}) | st.just(1.5)
)


@st.composite
def _values(draw: st.DrawFn) -> bytes | None:
    """What a consumer writes, now and then with a field of another type, or no entry at all."""
    written = encode(draw(_ENTRIES))
    match draw(st.integers(0, 4)):
        case 0:
            message = json.loads(written)
            name = draw(st.sampled_from(sorted(message)))
            message[name] = draw(_WRONG)
            return json.dumps(message).encode()
        case 1:
            return draw(st.none() | st.binary(max_size=8) | st.just(written[:-1]))
        case 2:
            message = json.loads(written)
            del message[draw(st.sampled_from(sorted(message)))]
            return json.dumps({**message, "of a later version": [1]}).encode()
        case _:
            return written


def _rows(spark: SparkSession, values: list[bytes | None]) -> list[Row]:
    records = [Record("journal", 0, offset, 0, None, value) for offset, value in enumerate(values)]
    return journal(frame(spark, records)).collect()


@given(st.lists(_values(), min_size=60, max_size=200).map(Many))
@settings(
    max_examples=3,
    phases=[Phase.explicit, Phase.generate],  # a smaller example is another job of seconds
    suppress_health_check=list(HealthCheck),
)
def test_spark_and_python_say_the_same(spark: SparkSession, values: list[bytes | None]) -> None:
    """An entry is one for both or for neither, and each of its fields is in its column."""
    for value, row in zip(values, _rows(spark, values), strict=True):
        entry = read_entry(value)
        if isinstance(entry, Unreadable):
            assert row.problems, (value, entry)
            kept = row.garbled[0].value
            assert value == (None if kept is None else bytes(kept))
            assert (row.event, row.at_ms, row.message_topic) == (None, None, None)
        else:
            assert row.problems is None, value
            assert _of(entry) == {name: row[name] for name in _of(entry)}


@pytest.mark.usefixtures("strict_parser")
def test_the_sessions_own_sql_changes_nothing(spark: SparkSession) -> None:
    """Neither words that it reserves, nor how it reads a backslash."""
    opened = CircuitOpened(Scope(), "orders", 0, 7, "Error", 1, 0.5, _EPOCH)
    entry = Entry("a/b\nc", 12, 1, "billing", "m", opened)
    (row,) = _rows(spark, [encode(entry)])
    assert row.problems is None
    assert _of(entry) == {name: row[name] for name in _of(entry)}


def _of(entry: Entry) -> dict[str, object]:
    message = {
        "event_id": entry.event_id,
        "instance": entry.instance,
        "sequence": entry.sequence,
        "at_ms": entry.at_ms,
        "group": entry.group,
        "member": entry.member,
        "event": type(entry.event).__name__,
        **dict.fromkeys(("host", "pid", "client_id")),
        **({} if entry.process is None else asdict(entry.process)),
    }
    for field in fields(entry.event):
        value = getattr(entry.event, field.name)
        match value:
            case Scope():
                message |= {f"scope_{name}": part for name, part in asdict(value).items()}
            case datetime():
                message[f"{field.name}_ms"] = (value - _EPOCH) // timedelta(milliseconds=1)
            case tuple():
                message[field.name] = list(value)
            case _ if field.name in ("topic", "partition", "offset"):
                message[f"message_{field.name}"] = value
            case _:
                message[field.name] = value
    return message


def test_the_corpus_is_read_as_in_python(spark: SparkSession) -> None:
    """Names that are there twice, huge numbers and absurd times: the same entries, or none."""
    for row, (value, is_entry) in zip(_rows(spark, [*CORPUS]), CORPUS.items(), strict=True):
        assert is_entry == (row.problems is None), value


def test_what_is_no_entry_says_why(spark: SparkSession) -> None:
    """A newer version, an unknown event and garbage are distinguished."""
    problems: dict[bytes | None, str] = {
        b'{"v":2}': "v is 2; this release reads 1",
        b'{"v":"1"}': 'v is "1" (STRING); this release reads 1',
        b'{"v":1.0}': "v is 1 (DECIMAL(1,0)); this release reads 1",
        b'{"v":null}': "v is null (VOID); this release reads 1",
        b'{"event":"Stopped"}': "v is missing; this release reads 1",
        b'{"v":1,"event":"Started"}': "event is not known",
        b"[1]": "not a JSON object",
        b"[" * 5000: "not a JSON object",
        b'{"v":NaN}': "not a JSON object",
        None: "not a JSON object",
    }
    rows = _rows(spark, list(problems))
    assert [[problem] for problem in problems.values()] == [row.problems for row in rows]


def test_a_stream_is_read_like_a_batch(spark: SparkSession, tmp_path: Path) -> None:
    """The same columns and rows, of records as Spark's Kafka source streams them."""
    records = [Record("journal", 0, n, 0, None, value) for n, value in enumerate(CORPUS)]
    batch, rows = frame(spark, records), []
    batch.write.parquet(str(tmp_path / "records"))
    stream = journal(spark.readStream.schema(batch.schema).parquet(str(tmp_path / "records")))
    query = stream.writeStream.foreachBatch(lambda found, _: rows.extend(found.collect()))
    query.trigger(availableNow=True).start().awaitTermination()
    assert sorted(map(repr, journal(batch).collect())) == sorted(map(repr, rows))
