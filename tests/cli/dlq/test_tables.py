"""Letters fit on a terminal of any width."""

import pytest

from linear_retry.cli.dlq.tables import print_letters, table_row
from linear_retry.dlq.letters.letter import State
from linear_retry.records.text import ErrorText
from tests.dlq.sample_letters import our_letter

_LATE = ErrorText("requests.exceptions.ConnectTimeout", "payments:443 is late; " * 20, None)
_LETTERS = [(our_letter(number, error=_LATE), State.OPEN) for number in range(3)]


@pytest.mark.parametrize("columns", [80, 100, 120, 150, 200])
def test_no_width_hides_an_id_or_a_state(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, columns: int
) -> None:
    """A long exception made a wide table without ids: rich takes the room from other columns."""
    monkeypatch.setenv("COLUMNS", str(columns))
    print_letters([table_row(letter, state, payload=True) for letter, state in _LETTERS])
    text = capsys.readouterr().out
    assert [1, 1, 1] == [text.count(letter.id) for letter, _ in _LETTERS]
    assert [3, 3, 3] == [text.count(word) for word in ("open", "orders/3/", "exhausted")]
    assert ["ann", "book"] == [word for word in ("ann", "book") if text.count(word) == 3]
    assert max(map(len, text.splitlines())) <= columns


def test_a_hundred_columns_are_enough_for_a_line(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """A letter took two lines on a terminal of usual width; its id says where it came from."""
    monkeypatch.setenv("COLUMNS", "100")
    timeout = ErrorText("payments.client.TimeoutError", "payments:443 is late", None)
    letters = [our_letter(number, error=timeout) for number in range(1040, 1044)]
    print_letters([table_row(letter, State.REPLAYED, payload=False) for letter in letters])
    _, _, *lines = capsys.readouterr().out.splitlines()
    assert [f"2026-11-21 09:32:19.{850 + number}Z" for number in range(4)] == [
        line[:24] for line in lines
    ]
    for letter, line in zip(letters, lines, strict=True):
        assert letter.id in line
        assert " TimeoutError: " in line
        assert line.endswith("replayed")
        assert len(line) <= 100


def test_a_wide_terminal_has_one_line_for_each(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Where all of a line fits it is one, with as much of the exception as there is room for."""
    monkeypatch.setenv("COLUMNS", "200")
    print_letters([table_row(letter, state, payload=False) for letter, state in _LETTERS])
    lines = [line for line in capsys.readouterr().out.splitlines() if "orders[3]@" in line]
    assert 3 == len(lines)
    assert [] == [line for line in lines if "ConnectTimeout: payments:443 is late" not in line]
