"""Tables and bars fit on a terminal, however long the names in them are."""

import pytest

from linear_retry.cli.output import rows
from linear_retry.cli.output.rows import write_bars, write_table

_TOPIC = "com.example.payments.settlement.europe.orders.v2.enriched-with-customers"
_HEAD = ("from", "to", "letters", "offsets", "oldest", "newest")
_MOMENT = "2026-11-21 09:32:18Z"


def _row(topic: str, number: int) -> tuple[str, ...]:
    place = f"{topic}[{number}]"
    return place, place, "12", "1042 to 1999", _MOMENT, _MOMENT


@pytest.mark.parametrize("columns", [80, 100, 200])
@pytest.mark.parametrize("topic", ["orders", _TOPIC])
def test_names_give_way_before_times_and_numbers(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, columns: int, topic: str
) -> None:
    """The bug: at 80 columns `2026-11-2` stood above `1`. Names are folded, and none is cut."""
    monkeypatch.setenv("COLUMNS", str(columns))
    monkeypatch.setattr(rows, "is_terminal", lambda: True)
    write_table(_HEAD, [_row(topic, number) for number in range(3)], ["letters"])
    lines = capsys.readouterr().out.splitlines()
    assert columns >= max(map(len, lines))
    words = [word for line in lines[2:] for word in line.split()]
    assert 6 == words.count("2026-11-21") == words.count("09:32:18Z")
    folded = "".join(line[:12].rstrip() for line in lines[2:])
    assert topic == "orders" or columns > 80 or 3 == folded.count(_TOPIC)


@pytest.mark.parametrize("columns", [60, 80, 200])
def test_a_bar_has_room_beside_any_name(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, columns: int
) -> None:
    """The bug: a key of 200 characters moved the bars off the terminal. Its ends are kept."""
    monkeypatch.setenv("COLUMNS", str(columns))
    write_bars("top keys", [(f"first-{'x' * 180}-last", 1200), ("short", 300)])
    _, _, long, short = capsys.readouterr().out.splitlines()
    assert columns >= len(long)
    assert "first-x" in long
    assert "x-last  1200  ##########" in long
    assert 4 * short.count("#") - long.count("#") in range(4)


def test_bars_of_short_names_are_of_full_length(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Nothing is cut that has room."""
    monkeypatch.setenv("COLUMNS", "80")
    write_bars("top reasons", [("permanent", 2), ("exhausted", 1)])
    assert f"\ntop reasons\n  permanent  2  {'#' * 40}\n  exhausted  1  {'#' * 20}\n" == (
        capsys.readouterr().out
    )
