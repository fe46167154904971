"""What an index answers is what its letters say, whatever they hold."""

import sqlite3
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings

from linear_retry.console.letters import conditions, queries, schema
from linear_retry.console.letters.conditions import LetterFilter
from linear_retry.console.letters.index import Index, make_tables, transaction
from linear_retry.console.letters.queries import filter_of
from linear_retry.console.letters.rows import OTHERS, pattern_of
from linear_retry.console.letters.writer import Writer
from linear_retry.console.state.state import StateError
from linear_retry.dlq.letters.letter import State, read_letter
from linear_retry.dlq.reading.resolutions import Resolution, encoded
from linear_retry.records.record import Record
from linear_retry.records.text import ErrorText
from tests.dlq.sample_letters import RECORDS, our_letter, our_record

_ALL = LetterFilter(states=())


def _page(
    index: Index, wanted: LetterFilter, *, limit: int, after: queries.Place | None = None
) -> list[queries.ListedLetter]:
    return queries.page(index, queries.search(index, wanted), limit=limit, after=after)


def _count(index: Index, wanted: LetterFilter) -> int:
    return queries.count(index, queries.search(index, wanted))


def _groups(index: Index, wanted: LetterFilter) -> list[queries.Group]:
    return queries.groups(index, queries.search(index, wanted))


@pytest.fixture
def index(tmp_path: Path) -> Index:
    """An index of `orders.dlq`, empty."""
    return Index(tmp_path, "orders.dlq")


def _add(index: Index, *letters: Record, resolutions: tuple[Record, ...] = ()) -> None:
    with index.writing() as database, transaction(database):
        writer = Writer(database)
        writer.add_letters(letters)
        writer.add_resolutions(resolutions)


def _refused(number: int, **more: object) -> Record:
    error = ErrorText("ConnectionError", f"payments-{number}:8080 refused 100%", "stack")
    return our_record(number, error=error, **more)  # type: ignore[arg-type]  # passed on as they are


def _invalid(number: int, **more: object) -> Record:
    error = ErrorText("ValueError", f"no amount in order {number}", None)
    return our_record(number, error=error, **more)  # type: ignore[arg-type]  # passed on as they are


def _resolved(record: Record) -> Record:
    key = read_letter(record).resolution_key.encode()
    value = encoded(Resolution(State.RESOLVED, "ann", why="known"))
    return Record("orders.dlq.resolved", 0, 1, 0, key, value)


@pytest.fixture
def filled(index: Index) -> Index:
    """Ten letters of two errors, of which one is resolved."""
    letters = [_refused(n, key=b"ann") for n in range(6)]
    more = {"origin": "bills", "reason": "permanent", "headers": (("tenant", b"\xff"),)}
    letters += [_invalid(n, key=b"bob" if n < 9 else None, **more) for n in range(6, 10)]
    _add(index, *letters, resolutions=(_resolved(letters[1]),))
    return index


def _offsets(index: Index, wanted: LetterFilter) -> list[int]:
    found = _page(index, wanted, limit=100)
    assert len(found) == _count(index, wanted)
    assert len(found) == sum(group.letters for group in _groups(index, wanted))
    return sorted(letter.offset for letter in found)


_FIRST_MS = our_letter(0).timestamp_ms


@pytest.mark.parametrize(
    ("wanted", "offsets"),
    [
        (LetterFilter(), [0, 2, 3, 4, 5, 6, 7, 8, 9]),
        (_ALL, [*range(10)]),
        (LetterFilter(states=(State.RESOLVED,)), [1]),
        (LetterFilter(error="ValueError"), [6, 7, 8, 9]),
        (LetterFilter(pattern="no amount in order #"), [6, 7, 8, 9]),
        (LetterFilter(reason="permanent"), [6, 7, 8, 9]),
        (LetterFilter(origin="bills", text="order 7"), [7]),
        (LetterFilter(origin="orders", text="order 7"), []),
        (LetterFilter(text="CONNECTIONerror: pay"), [0, 2, 3, 4, 5]),
        (LetterFilter(text="100%", group_id="billing"), [0, 2, 3, 4, 5]),
        (LetterFilter(text="1%0"), []),
        (LetterFilter(text="r_f"), []),
        (LetterFilter(text="5:"), [5]),
        (LetterFilter(key=b"bob"), [6, 7, 8]),
        (LetterFilter(no_key=True), [9]),
        (LetterFilter(key=b"ann", no_key=True), [0, 2, 3, 4, 5, 9]),
        (LetterFilter(not_text="connectionerror"), [6, 7, 8, 9]),
        (LetterFilter(not_text="order 7", text="amount"), [6, 8, 9]),
        (LetterFilter(not_text="order #"), [0, 2, 3, 4, 5, 6, 7, 8, 9]),
        (LetterFilter(not_text="no amount in"), [0, 2, 3, 4, 5]),
        (LetterFilter(not_text="1%0"), [0, 2, 3, 4, 5, 6, 7, 8, 9]),
        (LetterFilter(not_origin="orders"), [6, 7, 8, 9]),
        (LetterFilter(not_origin="bills", not_text="-5:"), [0, 2, 3, 4]),
        (LetterFilter(header=("tenant", b"\xff")), [6, 7, 8, 9]),
        (LetterFilter(header=("tenant", b"acme"), text="100%"), [0, 2, 3, 4, 5]),
        (LetterFilter(header=("Tenant", b"acme")), []),
        (LetterFilter(header=("retry-reason", b"permanent")), []),
        (replace(_ALL, since_ms=_FIRST_MS + 1, until_ms=_FIRST_MS + 3), [1, 2]),
        (replace(_ALL, name=our_letter(3).id), [3]),
    ],
)
def test_a_filter_selects_what_it_says(
    filled: Index, wanted: LetterFilter, offsets: list[int]
) -> None:
    """In the page, in the count and in the groups, with wildcards in the text as any character."""
    assert offsets == _offsets(filled, wanted)


def test_what_many_letters_have_in_common_is_found_without_a_list_of_them(
    filled: Index, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of a text or a header: the same letters as of few."""
    monkeypatch.setattr(conditions, "_FEW", 2)
    assert [0, 2, 3, 4, 5] == _offsets(filled, LetterFilter(text="refused"))
    assert [6, 7, 8, 9] == _offsets(filled, LetterFilter(header=("tenant", b"\xff")))


def test_the_headers_of_a_letter_leave_with_it(filled: Index) -> None:
    """Else what retention has removed would fill the disk."""
    with filled.writing() as database:
        while Writer(database).remove_before(0, 8):
            pass
        assert [(8,), (9,)] == database.execute("SELECT letter_id - 1 FROM header").fetchall()
    assert [8, 9] == _offsets(filled, LetterFilter(header=("tenant", b"\xff")))


def test_of_many_headers_the_first_are_found(index: Index) -> None:
    """So that one letter cannot fill the disk."""
    headers = [(f"h{number}", b"") for number in range(schema.HEADERS + 1)]
    _add(index, our_record(headers=tuple(headers)))
    found = [_count(index, LetterFilter(header=header)) for header in headers]
    assert [*[1] * schema.HEADERS, 0] == found


def test_groups_have_their_first_and_last_letter(filled: Index) -> None:
    """By error, the most frequent first, numbers and ids left out."""
    refused, invalid = _groups(filled, LetterFilter())
    assert queries.Group("ValueError", "no amount in order #", 4, _FIRST_MS + 6, _FIRST_MS + 9) == (
        invalid
    )
    assert ("ConnectionError", "payments-#:# refused #%", 5) == (
        refused.error,
        refused.pattern,
        refused.letters,
    )
    summary = queries.summary(filled)
    assert ({State.OPEN: 9, State.RESOLVED: 1}, _FIRST_MS) == (
        summary.states,
        summary.oldest_open_ms,
    )
    assert ["bills", "orders"] == queries.names(filled, "origin")


def test_older_open_letters_of_a_key_are_counted(filled: Index) -> None:
    """Those of the same partition and topic that come before it, and wait still."""
    found = [queries.older_open(filled, read_letter(_refused(n, key=b"ann"))) for n in (0, 1, 5)]
    assert [0, 1, 4] == found
    others = (_refused(5, key=None), _refused(5, key=b"bob"), _refused(5, partition=4))
    assert [0, 0, 0] == [queries.older_open(filled, read_letter(each)) for each in others]


def test_pages_follow_one_another(index: Index) -> None:
    """Each letter once, the latest first, also where many have one time."""
    letters = [replace(_refused(n), timestamp_ms=1_000 + n // 7) for n in range(50)]
    _add(index, *letters)
    seen: list[int] = []
    after = None
    while found := _page(index, _ALL, limit=8, after=after):
        seen += [letter.offset for letter in found]
        after = found[-1].place
    assert [*reversed(range(50))] == seen


def test_a_selection_is_of_the_letters_that_were_counted(filled: Index) -> None:
    """What comes later is not among them; what is resolved meanwhile has left it."""
    selection = queries.selected(filled, LetterFilter(error="ValueError"))
    assert 4 == selection.count
    resolved = _resolved(_invalid(6, origin="bills", key=b"bob"))
    _add(filled, _invalid(20, origin="bills"), resolutions=(resolved,))
    chosen = filter_of(filled, selection)
    open_now = [our_letter(n, origin="bills", key=b"bob" if n < 9 else None) for n in (7, 8, 9)]
    assert sorted(each.resolution_key for each in open_now) == sorted(
        queries.keys(filled, selection)
    )
    assert chosen.matches(open_now[0], State.OPEN)
    assert not chosen.matches(our_letter(20, origin="bills"), State.OPEN)
    with filled.writing() as database, transaction(database):
        make_tables(database)
    with pytest.raises(queries.StaleSelectionError):
        list(queries.keys(filled, selection))


def test_an_index_that_is_busy_is_not_deleted(index: Index) -> None:
    """Only a damaged one is made again."""
    _add(index, _refused(1))
    index.mend(sqlite3.OperationalError("database is locked"))
    assert 1 == _count(index, _ALL)
    index.mend(sqlite3.DatabaseError("database disk image is malformed"))
    assert 0 == _count(index, _ALL)


@given(record=RECORDS)
@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], max_examples=50)
def test_whatever_lies_in_the_topic_is_indexed(index: Index, record: Record) -> None:
    """Garbled headers, other systems' letters, no letter at all: with id and generation."""
    with index.writing() as database, transaction(database):
        make_tables(database)
    _add(index, record)
    letter = read_letter(record)
    (found,) = _page(index, _ALL, limit=10)
    assert (letter.id, letter.generation) == (found.name, found.generation)
    assert [letter.resolution_key] == list(queries.keys(index, queries.selected(index, _ALL)))


def test_a_row_is_bounded(index: Index) -> None:
    """Whatever the size of id, key, error and value."""
    error = ErrorText("E" * 10_000, "m\0" * 100_000, None)
    large = our_record(error=error, key=b"k" * 2_000_000, value=b"v" * 5_000_000)
    headers = tuple((n, b"i" * 10_000 if n == "retry-id" else v) for n, v in large.headers)
    _add(index, replace(large, headers=headers))
    (found,) = _page(index, _ALL, limit=1)
    sizes = len(found.name), len(found.key or b""), len(found.error)
    assert (schema.NAME_CHARACTERS, schema.KEY_BYTES, schema.ERROR_CHARACTERS) == sizes
    assert found.size_bytes > 7_000_000
    assert [found] == _page(index, replace(_ALL, name="i" * 10_000), limit=1)


def test_too_many_errors_are_one_group(index: Index, monkeypatch: pytest.MonkeyPatch) -> None:
    """So that a sender's texts do not make an index of groups."""
    monkeypatch.setattr(schema, "KINDS", 3)
    _add(index, *(our_record(n, reason=f"reason {n * 'x'}") for n in range(10)))
    assert 7 == _count(index, replace(_ALL, pattern=OTHERS.pattern))
    assert 1 == _count(index, replace(_ALL, reason="reason xxxxx"))


def test_too_many_of_all_that_a_sender_chooses_are_one_kind(
    index: Index, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Above a second limit, which keeps the index small."""
    monkeypatch.setattr(schema, "KINDS", 3)
    monkeypatch.setattr(schema, "KINDS_WITHOUT_MESSAGE", 2)
    _add(index, *(our_record(n, reason=f"reason {n * 'x'}") for n in range(10)))
    assert 5 == len(queries.names(index, "reason"))


def test_long_keys_are_told_apart_by_their_end(index: Index) -> None:
    """A replay of one key takes no letter of another that starts alike."""
    start = b"k" * schema.KEY_BYTES
    _add(
        index, _refused(0, key=start), _refused(1, key=start + b"1"), _refused(2, key=start + b"2")
    )
    wanted = replace(_ALL, key=start + b"2")
    assert [2] == [each.offset for each in _page(index, wanted, limit=10)]


def test_a_resolution_that_sqlite_cannot_hold_is_bounded(index: Index) -> None:
    """Lone surrogates and a time above 64 bits, which JSON may hold, would end the indexing."""
    letter = _refused(1)
    key = read_letter(letter).resolution_key.encode()
    value = encoded(Resolution(State.RESOLVED, "\ud800", 10**30, "\udfff"))
    _add(index, letter, resolutions=(Record("orders.dlq.resolved", 0, 1, 0, key, value),))
    assert [State.RESOLVED] == [each.state for each in _page(index, _ALL, limit=10)]
    found = queries.resolution(index, read_letter(letter))
    assert found is not None
    assert ("?", "?") == (found.by, found.why)


@pytest.mark.parametrize(
    ("message", "pattern"),
    [
        ("order 17 of 3fa85f64-5717-4562-b3fc-2c963f66afa6", "order # of #"),
        ("at 0x7f3a in trace 4bf92f3577b34da6a3ce929d0e0e4736", "at # in trace #"),
        ("refused: deadbeefcafe\n\x1b[31m now", r"refused: deadbeefcafe \x1b[#m now"),
        ("", ""),
    ],
)
def test_a_pattern_leaves_out_what_differs(message: str, pattern: str) -> None:
    """Numbers and ids; words stay, and what a terminal would obey is made visible."""
    assert pattern == pattern_of(message)


def test_a_damaged_index_is_made_again(filled: Index, tmp_path: Path) -> None:
    """All it holds can be read again; another version's too."""
    filled.path.write_bytes(b"not a database, but long enough to be taken for one" * 100)
    assert [] == _page(Index(tmp_path, "orders.dlq"), _ALL, limit=1)
    with Index(tmp_path, "orders.dlq").writing() as database:
        database.execute("PRAGMA user_version = 99")
    assert {} == queries.summary(Index(tmp_path, "orders.dlq")).states
    assert 0o600 == filled.path.stat().st_mode & 0o777


def test_without_trigrams_a_search_finds_the_same(
    index: Index, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An older SQLite reads every letter instead."""
    monkeypatch.setattr(schema, "TRIGRAMS", ("CREATE VIRTUAL TABLE search USING nothing",))
    with index.writing() as database, transaction(database):
        make_tables(database)
    _add(index, _refused(1), _invalid(2))
    assert [1] == _offsets(index, LetterFilter(text="refused"))


def test_a_reader_sees_one_moment(filled: Index) -> None:
    """What is written while a page is made is not in it, and waits for nobody."""
    with filled.reading() as database:
        before: Iterator[tuple[int]] = database.execute("SELECT count(*) FROM letter")
        assert [(10,)] == list(before)
        _add(filled, _invalid(30))
        assert [(10,)] == list(database.execute("SELECT count(*) FROM letter"))
    assert 11 == _count(filled, _ALL)


def test_a_damaged_file_is_said_in_a_sentence(index: Index) -> None:
    """And its writer hears of it, once, to make it again."""
    _add(index, _refused(1))
    with index.path.open("r+b") as file:
        file.seek(4096)
        file.write(b"\xff" * 4096 * 30)
    with pytest.raises(StateError, match=r"the index of orders.dlq cannot be read .*malformed"):
        queries.summary(index)
    with pytest.raises(sqlite3.DatabaseError, match="malformed"):
        index.check()
    index.check()
