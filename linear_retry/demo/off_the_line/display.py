"""Shows the line, who is out until when, and the order in which messages come back."""

from typing import TextIO

from rich.console import Group, RenderableType
from rich.panel import Panel
from rich.progress_bar import ProgressBar
from rich.table import Table
from rich.text import Text

from linear_retry.demo.display.lines import Lines
from linear_retry.demo.display.screen import Screen, counts
from linear_retry.demo.display.watching import Circuits
from linear_retry.demo.off_the_line.journeys import Ended, Journeys, journeys
from linear_retry.demo.off_the_line.story import BANK_BACK_S, DELAYS, DELAYS_MS, SEQUENCE
from linear_retry.demo.record import Progress, Record
from linear_retry.testing.event_log import AttemptStarted

_ENDED_SHOWN = 8
_ORDERS_SHOWN = 5


def _followed(record: Record) -> Journeys:
    return journeys(record.log.entries, record.orders, DELAYS_MS)


class RetryScreen(Screen):
    """A live view of the line and of those that have left it."""

    def picture(self) -> RenderableType:
        progress, found = self._record.progress(), _followed(self._record)
        return Group(
            Panel(_bank(self._record), title="the customers' banks", title_align="left"),
            _line(progress, found),
            _out(found, self._record.log.now_s()),
            counts(progress),
            _came_back(found.ended, self._record.started_s),
        )


class RetryLines(Lines):
    """Beside each event and the progress, a line for each order that has come back."""

    def __init__(self, record: Record, circuits: Circuits, out: TextIO | None = None) -> None:
        super().__init__(record, circuits, out)
        self._ended = 0

    def draw(self) -> None:
        super().draw()
        for each in _followed(self._record).ended[self._ended :]:
            self._ended += 1
            self._write(f"{each.at_s - self._record.started_s:6.2f} s  came back: {each}")


def _bank(record: Record) -> Text:
    """Its time counts from the first request."""
    attempts = (each.at_s for each in record.log.entries if isinstance(each, AttemptStarted))
    now_s = record.log.now_s()
    left_s = BANK_BACK_S - now_s + next(attempts, now_s)
    text = Text("most are up;  one is down for good;  one is ", no_wrap=True, overflow="ellipsis")
    if left_s > 0:
        return text.append("DOWN", style="bold red").append(f", back in {left_s:4.1f} s")
    return text.append("BACK", style="bold green")


def _line(progress: Progress, found: Journeys) -> Table:
    table = Table.grid(padding=(0, 1), expand=True)
    table.add_column(no_wrap=True)
    table.add_column(ratio=1)
    table.add_column(justify="right", no_wrap=True)
    dead = progress.dead_lettered - sum(not each.is_paid for each in found.ended)
    left = len(found.waiting) + len(found.ended)
    done = found.on_line + left + dead
    bar = ProgressBar(total=progress.total, completed=done)
    table.add_row(" the line ", bar, f"{done} of {progress.total}, {left} left it")
    return table


def _out(found: Journeys, now_s: float) -> Table:
    """A row for each delay: the orders that wait for it, by due time, each with its retry."""
    table = Table.grid(padding=(0, 1), expand=True)
    for ratio in (None, None, None, 1):
        table.add_column(no_wrap=True, ratio=ratio, overflow="ellipsis")
    for delay, meaning in DELAYS.items():
        here = [each for each in found.waiting.values() if SEQUENCE[each.step - 1] == delay]
        here.sort(key=lambda each: each.due_s)
        due = f"next in {max(here[0].due_s - now_s, 0):4.1f} s" if here else ""
        names = " ".join(f"{each.order_id[-3:]}#{each.step}" for each in here[:_ORDERS_SHOWN])
        more = f" and {len(here) - _ORDERS_SHOWN} more" if len(here) > _ORDERS_SHOWN else ""
        table.add_row(
            f" for {delay:<4}({meaning}) ", f"{len(here):2} waiting ", f"{due:<15}", names + more
        )
    return table


def _came_back(ended: list[Ended], started_s: float) -> Text:
    """The last ones. A fixed number of lines, or the view would jump."""
    shown = [f" {each.at_s - started_s:5.1f} s  {each}" for each in ended[-_ENDED_SHOWN:]]
    title = (
        f" retries #1 to #{len(SEQUENCE)} after {', '.join(SEQUENCE)}; came back, in this order:"
    )
    rows = [title, *shown, *[""] * (_ENDED_SHOWN - len(shown))]
    return Text("\n".join(rows), no_wrap=True, overflow="ellipsis")
