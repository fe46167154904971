"""Spark's columns say of a dead letter what `linear_retry.dlq` says."""

from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st
from pyspark.sql import Row, SparkSession

from linear_retry.dlq.letters.foreign import FOREIGN
from linear_retry.dlq.letters.letter import NONE, OURS, read_letter
from linear_retry.records.dead_letter import parse
from linear_retry.records.record import Record
from linear_retry.records.retry_headers import NO_OFFSET, NO_PARTITION
from linear_retry.records.text import ErrorText, Header
from linear_retry.spark import dead_letters
from tests.dlq.sample_letters import OWN_HEADERS, RECORDS, our_record, our_records
from tests.records.header_corpus import CORPUS
from tests.spark.records import AT_MS, Many, frame

pytestmark = pytest.mark.usefixtures("as_ingested")

_NUMBERS = {
    0: [b"\0\0\0\x07", b"\xff\xff\xff\xfe", b"\x80\0\0\0", b"\0", b"\0" * 8, b"\xff" * 40, b""],
    1: [b"\0" * 7 + b"\x2a", b"\xff" * 8, b"\x80" + b"\0" * 7, b"\x7f" + b"\xff" * 7, b"\0" * 4],
    2: [b"7", b"-7", b"07", b"9" * 19, b"9" * 20, b" 7", b"7\n", b"+7", "٧".encode(), b"\xff"],
}
_TEXTS = [
    *(
        b"orders",
        b"",
        b"\xff\xfe",
        b"a\xffb",
        b"\xed\xa0\x80",
        b"\xc0\x80",
        b"\xf0\x9f\x98",
        b"a\0b",
    ),
    *(b"\xe2\x82", b"\xe2\x82a", b"\xf4\x90\x80\x80", b"\xf0\x80\x80\x80", "ü€😀".encode()),
]


def _foreign_headers() -> st.SearchStrategy[tuple[Header, ...]]:
    names = sorted(
        {
            name
            for form in FOREIGN
            for name in (
                *(form.topic, form.partition[0], form.offset[0]),
                *(() if form.timestamp_ms is None else form.timestamp_ms[:1]),
                *(() if form.group_id is None else form.group_id[:1]),
                *(*form.reason, *form.exception_type, *form.exception_message),
                *form.exception_stack,
            )
        }
    )
    contents = st.none() | st.sampled_from(
        [*_TEXTS, *(n for each in _NUMBERS.values() for n in each)]
    )
    return st.lists(st.tuples(st.sampled_from([*names, "retry-version"]), contents)).map(tuple)


_FOREIGN_RECORDS = st.builds(
    lambda record, headers: replace(record, headers=headers), RECORDS, _foreign_headers()
)


@given(st.lists(RECORDS | our_records() | _FOREIGN_RECORDS, min_size=60, max_size=200).map(Many))
@settings(
    max_examples=3,
    phases=[Phase.explicit, Phase.generate],  # a smaller example is another job of seconds
    suppress_health_check=list(HealthCheck),
)
def test_spark_and_dlq_say_the_same(spark: SparkSession, records: list[Record]) -> None:
    """Whatever headers a record has, its columns are what reading it alone gives."""
    rows = dead_letters(frame(spark, records)).collect()
    for record, row in zip(records, rows, strict=True):
        assert _reported(record) == _of(row), record
        assert (row.format == NONE) <= bool(row.problems)


def test_the_corpus_is_read_as_it_says(spark: SparkSession) -> None:
    """The header sets that the parser of records is tried with, and what each must give."""
    records = [replace(our_record(), headers=each.headers) for each in CORPUS.values()]
    rows = dead_letters(frame(spark, records)).collect()
    for (name, expected), record, row in zip(CORPUS.items(), records, rows, strict=True):
        assert _reported(record) == _of(row), name
        assert (expected.wrong is None) == (row.problems is None), name
        assert any(str(expected.wrong) in each for each in row.problems or ["None"]), name


def _reported(record: Record) -> dict[str, object]:
    letter = read_letter(replace(record, timestamp_ms=AT_MS))
    origin = letter.origin
    is_ours = letter.format == OURS
    return {
        "place": (letter.topic, letter.partition, letter.offset, letter.key, letter.value),
        "headers": parse(letter.headers, None, None).original_headers
        if is_ours
        else letter.headers,
        "who": (letter.id, letter.generation, letter.format, letter.group_id),
        "origin": None
        if origin is None
        else (origin.topic, origin.partition, origin.offset, origin.timestamp_ms),
        "why": (letter.reason, letter.failures),
        "exception": (letter.exception_type, letter.exception_message, letter.exception_stack),
        "has a problem": letter.problem is not None,
    }


def _of(row: Row) -> dict[str, object]:
    at_ms = -1 if row.origin_timestamp_ms is None else row.origin_timestamp_ms
    return {
        "place": (row.topic, row.partition, row.offset, _bytes(row.key), _bytes(row.value)),
        "headers": _headers(row),
        "who": (row.id, row.generation, row.format, row.group_id),
        "origin": None
        if row.origin_topic is None
        else (row.origin_topic, row.origin_partition, row.origin_offset, at_ms),
        "why": (row.reason, row.failures),
        "exception": (row.exception_type, row.exception_message, row.exception_stack),
        "has a problem": row.problems is not None,
    }


def _headers(row: Row) -> tuple[Header, ...]:
    return tuple((each.key, _bytes(each.value)) for each in row.headers or ())


def _bytes(content: bytearray | None) -> bytes | None:
    return None if content is None else bytes(content)


def test_what_dlq_does_not_show_is_as_parsed(spark: SparkSession) -> None:
    """The columns beside those of `dlq list` are what `parse` gives."""
    more = (
        *(("retry-at-ms", b"17"), ("retry-escaped-headers", b"a%2Cb,c")),
        *(
            ("retry-oversized", b"reference"),
            ("retry-replay-id", b"r"),
            ("retry-replay-count", b"4"),
        ),
    )
    record = our_record()
    record = replace(record, headers=(*record.headers, *more))
    letter = parse(record.headers, record.key, record.value)
    (row,) = dead_letters(frame(spark, [record])).collect()
    assert OURS == row.format
    names = (
        *("send_to", "retry_at_ms", "first_failure_ms", "last_failure_ms", "strategy"),
        *("oversized", "replay_id", "replay_count"),
    )
    assert [getattr(letter, name) for name in names] == [row[name] for name in names]
    assert list(letter.escaped_headers) == row.escaped_headers


def test_a_message_without_a_place(spark: SparkSession) -> None:
    """One that the scheduler was to send by its key has no partition, and no offset there."""
    none = {
        "retry-original-partition": str(NO_PARTITION).encode(),
        "retry-original-offset": str(NO_OFFSET).encode(),
    }
    headers = tuple((name, none.get(name, value)) for name, value in our_record().headers)
    record = replace(our_record(), headers=headers)
    (row,) = dead_letters(frame(spark, [record])).collect()
    assert _reported(record) == _of(row)
    assert ("orders", None, None) == (row.origin_topic, row.origin_partition, row.origin_offset)


def test_the_headers_are_those_of_the_message(spark: SparkSession) -> None:
    """Wherever they lie among ours, all of the message's own are there, in order, and no other."""
    errors = (None, ErrorText("Error", None, None), ErrorText("Error", "no", "at line 1"))
    layouts = [
        headers
        for error in errors
        for headers in _layouts(our_record(headers=(), error=error).headers, OWN_HEADERS[-1])
    ]
    records = [replace(our_record(), headers=headers) for headers in layouts]
    for record, row in zip(records, dead_letters(frame(spark, records)).collect(), strict=True):
        assert _reported(record) == _of(row), record


def _layouts(ours: tuple[Header, ...], own: tuple[Header, ...]) -> list[tuple[Header, ...]]:
    return [
        *(ours, own + ours, ours + own, own[:1] + ours + own[1:], ours + own + ours),
        *(ours[:3] + own + ours[3:], own + ours[1:] + ours[:1], own + ours + ours[:1]),
        *(ours[4:5] + own + ours, own + ours + (("retry-replay-id", None),)),
        *(own + ours[:n] + ((ours[n][0], b"\xff"),) + ours[n + 1 :] for n in (11, len(ours) - 1)),
    ]


@pytest.mark.usefixtures("strict_parser")
def test_the_sessions_own_sql_changes_nothing(spark: SparkSession) -> None:
    """Neither words that it reserves, nor how it reads a backslash."""
    record = our_record()
    numbers = {"retry-original-timestamp-ms": b"-1", "retry-counter": b"007"}
    record = replace(record, headers=tuple((dict(record.headers) | numbers).items()))
    (row,) = dead_letters(frame(spark, [record])).collect()
    assert OURS == row.format
    assert _reported(record) == _of(row)


def test_what_cannot_be_read_is_kept(spark: SparkSession) -> None:
    """A garbled header is named, and its bytes stand beside; a missing one is named."""
    output: dict[tuple[str, bytes | None], tuple[str, list[tuple[str, bytes]]]] = {
        (name, content): (problem, [] if content is None else [(name, content)])
        for name, content, problem in (
            ("retry-counter", b"\xff", "retry-counter is garbled"),
            ("retry-reason", b"", "retry-reason is garbled"),
            ("retry-id", None, "retry-id is missing"),
            ("retry-version", b"2", "retry-version is garbled"),
        )
    }
    record = our_record()
    records = [
        replace(record, headers=tuple((dict(record.headers) | {name: content}).items()))
        for name, content in output
    ]
    rows = dead_letters(frame(spark, records)).collect()
    for row, (problem, garbled) in zip(rows, output.values(), strict=True):
        found = [(each.name, bytes(each.value)) for each in row.garbled or ()]
        assert (NONE, [problem], garbled) == (row.format, row.problems, found)


def test_a_stream_is_read_like_a_batch(spark: SparkSession, tmp_path: Path) -> None:
    """The same columns and rows, of records as Spark's Kafka source streams them."""
    records = [our_record(number) for number in range(3)]
    batch, rows = frame(spark, [*records, replace(records[0], value=None, headers=())]), list[Row]()
    batch.write.parquet(str(tmp_path / "records"))
    stream = dead_letters(spark.readStream.schema(batch.schema).parquet(str(tmp_path / "records")))
    query = stream.writeStream.foreachBatch(lambda found, _: rows.extend(found.collect()))
    query.trigger(availableNow=True).start().awaitTermination()
    assert sorted(map(repr, dead_letters(batch).collect())) == sorted(map(repr, rows))
