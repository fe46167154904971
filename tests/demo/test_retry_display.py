"""The displays of the retry topics show who waits, until when, and who came back."""

import io

import pytest
from rich.console import Console

from linear_retry.demo.off_the_line.display import RetryLines, RetryScreen
from linear_retry.demo.record import Record
from tests.demo.retry_story import FOREVER, RetryStory

ORDERS = {f"order-{number:03d}": number % 3 for number in range(1, 20)} | {"order-020": FOREVER}
WHOLE_S, HALF_S = 1_000.0, 101.9


def _record(until_s: float) -> Record:
    evidence = RetryStory().tell(ORDERS)
    record = Record(evidence.orders, clock=lambda: until_s)
    record.log.entries += [entry for entry in evidence.log if entry.at_s <= until_s]
    record.started_s = 99.0
    return record


def _shown(record: Record, width: int) -> list[str]:
    out = io.StringIO()
    picture = RetryScreen(record, dict, Console(file=io.StringIO())).picture()
    Console(file=out, width=width).print(picture)
    return out.getvalue().splitlines()


@pytest.mark.parametrize("width", [80, 120])
@pytest.mark.parametrize("until_s", [99.5, HALF_S, WHOLE_S])
def test_the_picture_fits_a_terminal(width: int, until_s: float) -> None:
    """At any time: 24 lines at most, none cut by the terminal."""
    shown = _shown(_record(until_s), width)
    assert len(shown) <= 23
    assert max(len(text) for text in shown) <= width


def test_the_picture_shows_each_topic_and_who_waits_there() -> None:
    """How many, when the first is due, and the orders with their steps."""
    shown = "\n".join(_shown(_record(HALF_S), 120))
    for words in (
        "one is down for good;  one is DOWN, back in 14.1 s",
        "19 of 20, 13 left it",
        "for 1s  (5m)   10 waiting  next in  0.0 s  010#1 011#1 002#2 013#1 014#1 and 5 more",
        "for 12s (1h)    0 waiting",
        "order-001  paid by retry #1, overtaken by 3",
    ):
        assert words in shown, shown


def test_the_picture_says_when_the_bank_is_back() -> None:
    """And what became of each: paid, or a dead letter."""
    shown = "\n".join(_shown(_record(WHOLE_S), 80))
    assert "one is BACK" in shown
    assert "order-020  dead letter after retry #6" in shown


def test_lines_show_each_order_that_came_back_once() -> None:
    """For a pipe: in the order in which they came back."""
    out = io.StringIO()
    record = _record(WHOLE_S)
    with RetryLines(record, dict, out) as lines:
        lines.draw()
        lines.draw()
    back = [line for line in out.getvalue().splitlines() if "came back: " in line]
    left = [order_id for order_id, failures in ORDERS.items() if failures]
    assert sorted(left) == sorted(line.split("came back: ")[1].split()[0] for line in back)
