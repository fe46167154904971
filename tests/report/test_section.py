"""Numbers, times and texts of a report are readable and safe."""

import pytest

from linear_retry.report.section import between, count, counted, duration, moment, percent, shown


@pytest.mark.parametrize(
    ("seconds", "text"),
    [
        (0.0, "0 ms"),
        (0.25, "250 ms"),
        (1.0, "1 s"),
        (90.0, "90 s"),
        (150.0, "2.5 min"),
        (7200.0, "2 h"),
        (86_400.0 * 400, "400 d"),
        (None, "–"),
    ],
)
def test_durations(seconds: float | None, text: str) -> None:
    """In the unit of which there are two at least."""
    assert text == duration(seconds)


@pytest.mark.parametrize(
    ("share", "text"),
    [(0, "0%"), (1e-9, "< 0.1%"), (0.004, "0.4%"), (0.5, "50%"), (0.9999, "> 99.9%"), (1, "100%")],
)
def test_shares(share: float, text: str) -> None:
    """Never none or all, where it is not quite that."""
    assert text == percent(share)


def test_texts() -> None:
    """In one line, cut, and without marks that hide or turn letters."""
    assert "a\ufffdb\ufffdc\ufffd" == shown("a\nb\u202ec\0")
    assert "–" == shown(None)
    assert (120, "…") == (len(shown("x" * 9999)), shown("x" * 9999)[-1])


def test_numbers() -> None:
    """With their nouns, and with nothing where there is none."""
    assert ("1 outage", "1,200 outages") == (counted(1, "outage"), counted(1200, "outage"))
    assert ("–", "–") == (count(None), moment(None))
    assert "9999-12-31 23:59 UTC" == moment(253_402_300_799_999)
    assert ("more than 2 s", "–") == (between(2.0, None), between(None, None))
