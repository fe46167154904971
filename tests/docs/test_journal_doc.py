"""docs/operations/journal.md is true."""

import json
import time
from typing import Any

from docs.generators.events import hints_by_field, journal_fields
from linear_retry.journal.entry import DEFAULT_TOPIC, Entry, encode, read_entry
from linear_retry.kafka.embedded.cluster import EmbeddedKafka
from tests.docs.markdown import blocks, code, page, table
from tests.journal.journal_story import GROUP, outage, write

_PAGE = "docs/operations/journal.md"


def test_a_field_has_one_type() -> None:
    """Whoever makes a table of the entries needs one column for each."""
    may_be_null = {"topic": str | None, "partition": int | None, "offset": int | None}
    for name, hints in hints_by_field().items():
        assert 1 == len({*hints.values()} - {may_be_null.get(name)}), name


def test_every_field_has_its_type_in_json() -> None:
    """As the page shows it: times are whole milliseconds, places are objects."""
    rows = {code(name)[0]: output for name, output, _ in table(journal_fields(), "field")}
    assert set(rows) == set(hints_by_field())
    assert ("integer: UTC milliseconds", "integer or null") == (rows["retry_at"], rows["offset"])


def test_what_every_entry_has_is_there() -> None:
    """The fields that are not the event's."""
    reported = [code(row[0])[0] for row in table(page(_PAGE), "common field")]
    assert reported == [
        *("v", "event_id", "at_ms", "group", "member", "host", "pid", "client_id", "event")
    ]


def test_the_example_is_an_entry() -> None:
    """What the page shows is what is written."""
    (example,) = blocks(page(_PAGE), "json")
    entry = read_entry(example.encode())
    assert isinstance(entry, Entry)
    assert json.loads(example) == json.loads(encode(entry))
    assert entry.key.decode() in page(_PAGE)


def test_the_code_runs() -> None:
    """Every block, as it is; what they make of the example, and of a journal."""
    names: dict[str, Any] = {}
    for block in blocks(page(_PAGE), "python"):
        exec(block, names)
    (example,) = blocks(page(_PAGE), "json")
    assert names["opened"](example.encode()).startswith("billing pod-1: CircuitOpened(scope=")
    assert names["opened"](b"garbled") is None
    with EmbeddedKafka() as kafka:
        kafka.create_topic(DEFAULT_TOPIC)
        write(kafka, DEFAULT_TOPIC, outage(time.time_ns() // 1_000_000))
        first, second = names["open_circuits"](kafka.bootstrap, GROUP)
    assert "pod-1: orders[0]@1042, again" == first
    assert "billing-consumer" in second
