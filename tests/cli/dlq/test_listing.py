"""Letters fit on a terminal of any width."""

import pytest

from linear_retry.cli.dlq.listing import print_letters, table_row
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
    for words in ("open", "2026-11-21 09:32:1", "exhausted", "ConnectTimeou", "ann", "book"):
        assert 3 == text.count(words), words
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
