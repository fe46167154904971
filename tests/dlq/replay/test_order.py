"""Letters come out in their order, each once, however they came in and however many."""

import os
import random
import sqlite3
from collections import defaultdict
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from linear_retry.dlq.reading.spill import DiskFullError
from linear_retry.dlq.replay.order import Entry, InOrder, batches

_SMALL = st.integers(0, 3)
_PLACES = st.tuples(_SMALL, st.integers(0, 20) | st.integers(0, 2**63 - 1), st.integers(1, 3))
_PLACED = st.lists(_PLACES, max_size=60)


def _resident_mib() -> float:
    pages = int(Path("/proc/self/statm").read_text().split()[1])
    return pages * os.sysconf("SC_PAGE_SIZE") / 2**20


def _entry(place: tuple[int, int, int], content: bytes = b"") -> Entry:
    return Entry(*place, f"{place}", content)


@given(_PLACED)
def test_each_source_is_in_its_order_and_each_letter_is_there_once(
    places: list[tuple[int, int, int]],
) -> None:
    """By original offset, then generation; what was written twice is one letter."""
    with InOrder() as order:
        for place in places:
            order.add(_entry(place))
        found = [entry[:3] for entry in order]
    # The sort is stable: it changes nothing within a source.
    assert sorted(set(places)) == sorted(found, key=lambda place: place[0])


def test_letters_of_one_name_and_different_messages_are_left_out() -> None:
    """Which of them counts is not known, and what is recorded of one would be of all."""
    with InOrder() as order:
        for offset, digest in ((1, "a"), (2, "a"), (2, "b"), (2, "a"), (3, "a"), (3, "a")):
            order.add(_entry((0, offset, 1))._replace(digest=digest))
        assert 2 == order.remove_ambiguous()
        assert [1, 3] == [entry.offset for entry in order]


def test_sources_take_turns() -> None:
    """With a low rate the last partition got nothing until all others were through."""
    with InOrder() as order:
        for place in ((0, 1, 1), (0, 2, 1), (0, 3, 1), (1, 7, 1), (2, 4, 1), (2, 5, 1)):
            order.add(_entry(place))
        assert [0, 1, 2, 0, 2, 0] == [entry.source for entry in order]


@given(st.lists(st.tuples(_SMALL, _SMALL, st.integers(1, 3), st.integers(0, 9)), max_size=30))
def test_the_oldest_first_breaks_no_order(places: list[tuple[int, int, int, int]]) -> None:
    """Each source in its order; of what is next in the sources, always what was written first."""
    written = {(source, offset, gen): at_ms for source, offset, gen, at_ms in reversed(places)}
    with InOrder() as order:
        for source, offset, generation, at_ms in places:
            order.add(_entry((source, offset, generation))._replace(written_ms=at_ms))
        found = [(each.source, each.offset, each.generation) for each in order.oldest_first(4)]
    assert sorted(written) == sorted(found, key=lambda place: place[0])
    for number, place in enumerate(found):
        left = found[number:]
        heads = [min(each for each in left if each[0] == source) for source in {p[0] for p in left}]
        assert written[place] == min(written[head] for head in heads)


@given(_PLACED)
def test_of_a_letter_that_was_written_twice_the_first_counts(
    places: list[tuple[int, int, int]],
) -> None:
    """Whatever else came in between."""
    first: dict[str, bytes] = {}
    with InOrder() as order:
        for number, place in enumerate(places):
            entry = _entry(place, b"%d" % number)
            first.setdefault(entry.name, entry.content)
            order.add(entry)
        assert first == {entry.name: entry.content for entry in order}


@given(_PLACED)
def test_sources_are_counted(places: list[tuple[int, int, int]]) -> None:
    """Each once, with its lowest and highest offset."""
    expected = defaultdict(list)
    for source, offset, _ in sorted(set(places)):
        expected[source].append(offset)
    with InOrder() as order:
        for place in places:
            order.add(_entry(place))
        assert [(source, len(of), of[0], of[-1]) for source, of in expected.items()] == list(
            order.sources()
        )
        for source, offsets in expected.items():
            assert offsets == [entry.offset for entry in order.of(source)]


@given(st.lists(st.binary(max_size=30), max_size=40), st.integers(1, 9), st.integers(1, 60))
def test_batches_are_the_same_in_the_same_order(
    contents: list[bytes], most: int, most_bytes: int
) -> None:
    """None is larger than it may be, but for one that is too large alone; none is empty."""
    entries = [_entry((0, number, 1), content) for number, content in enumerate(contents)]
    found = list(batches(entries, most, most_bytes))
    assert entries == [entry for batch in found for entry in batch]
    for batch in found:
        assert 1 <= len(batch) <= most
        assert len(batch) == 1 or sum(len(entry.content) for entry in batch) <= most_bytes


@pytest.mark.parametrize("displaced", [50, 40_000])
def test_memory_is_bounded(displaced: int) -> None:
    """80 MB of letters, nearly in order or not at all, take no more memory than the cache."""
    rng, count, content = random.Random(1), 40_000, b"x" * 2000
    arrival = sorted(range(count), key=lambda offset: offset + rng.randrange(displaced))
    with InOrder(cache_kib=1024) as order:
        before_mib = _resident_mib()
        for offset in arrival:
            order.add(_entry((offset % 3, offset, 1), content))
        for source in range(3):
            offsets = [entry.offset for entry in order.of(source)]
            assert list(range(source, count, 3)) == offsets
        assert 40 > _resident_mib() - before_mib


def test_no_room_is_one_sentence(monkeypatch: pytest.MonkeyPatch) -> None:
    """A full disk is one sentence, with what to do."""

    class _Full:
        def execute(self, *_: object) -> None:
            return None

        def executemany(self, *_: object) -> None:
            raise sqlite3.OperationalError("database or disk is full")

        def close(self) -> None:
            return None

    monkeypatch.setattr(sqlite3, "connect", lambda *_, **__: _Full())
    with InOrder() as order:
        order.add(_entry((0, 0, 1)))
        with pytest.raises(DiskFullError, match=r"disk is full.*SQLITE_TMPDIR"):
            list(order.sources())
