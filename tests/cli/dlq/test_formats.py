"""Whatever lies in a topic can be written to a terminal and into a pipe."""

import orjson
import pytest
from hypothesis import given
from hypothesis import strategies as st

from linear_retry.cli.dlq import formats
from linear_retry.dlq.letters.letter import Letter, State, read_letter
from linear_retry.records import printable
from linear_retry.records.text import ErrorText
from tests.dlq.sample_letters import RECORDS, our_letter, our_records

_LETTERS = (our_records() | RECORDS).map(read_letter)


@given(_LETTERS, st.sampled_from(State))
def test_a_row_is_one_line_of_cells(letter: Letter, state: State) -> None:
    """No cell has a tab, an end of a line, or anything that moves a cursor or turns its way."""
    row = (*formats.cells(letter, state), *formats.payload_cells(letter))
    assert len(formats.HEAD) + len(formats.PAYLOAD_HEAD) == len(row)
    assert [] == [cell for cell in row if not cell.isprintable()]


@given(_LETTERS, st.sampled_from(State), st.booleans())
def test_an_object_says_the_same_of_each(letter: Letter, state: State, payload: bool) -> None:
    """Whatever the bytes are, it is JSON; the same fields for every letter, whoever wrote it."""
    output = orjson.loads(orjson.dumps(formats.as_json(letter, state, payload=payload)))
    assert (letter.id, letter.generation, state) == (
        output["id"],
        output["generation"],
        output["state"],
    )
    fields = formats.as_json(our_letter(), State.OPEN, payload=False)
    assert set() == fields.keys() - output.keys()


@given(st.text(st.characters(codec="utf-8")))
def test_what_is_safe_is_printable(text: str) -> None:
    """Escape sequences, and marks that write from right to left, end here."""
    assert printable.in_one_line(text).isprintable()
    assert all(line.isprintable() for line in printable.lines(text))
    assert "\u202e" not in printable.one_line(f"{text}\u202e\x1b[2J")


def test_an_id_is_never_cut() -> None:
    """It is what `show` wants, however long a group's name is; an exception's text is cut."""
    letter = our_letter(origin="o" * 249)
    assert letter.id in formats.cells(letter, State.OPEN)


@given(st.integers(-(2**63), 2**63 - 1))
def test_any_time_can_be_printed(timestamp_ms: int) -> None:
    """Kafka takes any number of 64 bits, and calendars do not."""
    assert printable.moment(timestamp_ms).isprintable()
    assert printable.exact_moment(timestamp_ms).isprintable()


@pytest.mark.parametrize(
    ("timestamp_ms", "expected"),
    [
        (1_795_253_536_810, "2026-11-21 09:32:16Z"),
        (0, "1970-01-01 00:00:00Z"),
        (-1, "-"),
        (2**62, "4611686018427387904 ms"),
    ],
)
def test_times(timestamp_ms: int, expected: str) -> None:
    """UTC, to the second; a dash where the message has none."""
    assert expected == printable.moment(timestamp_ms)


@pytest.mark.parametrize(
    ("timestamp_ms", "expected"),
    [
        (1_795_253_536_810, "2026-11-21 09:32:16.810Z"),
        (7, "1970-01-01 00:00:00.007Z"),
        (-1, "-"),
        (2**62, "4611686018427387904 ms"),
    ],
)
def test_exact_times(timestamp_ms: int, expected: str) -> None:
    """To the millisecond: letters of one second could not be distinguished, nor be put in order."""
    assert expected == printable.exact_moment(timestamp_ms)


def test_python_s_own_exceptions_are_written_as_everywhere() -> None:
    """`builtins.` took a tenth of the column, and nobody writes it."""
    letter = our_letter(error=ErrorText("builtins.TimeoutError", "late", None))
    assert "TimeoutError: late" == formats.cells(letter, State.OPEN)[5]
