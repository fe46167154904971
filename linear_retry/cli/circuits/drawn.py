"""How do open circuits look on a terminal?"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from rich.box import SIMPLE_HEAD
from rich.console import Console
from rich.table import Table
from rich.text import Text

from linear_retry.cli.circuits import telling
from linear_retry.cli.printable import in_one_line, moment, one_line
from linear_retry.group_view import OpenCircuit

_WIDE_CELLS = 130
STYLES = {"open": "red", "half-open": "yellow"}


def draw(rows: Sequence[tuple[str, OpenCircuit]], now_ms: int) -> None:
    """Print a table of them, for each group one."""
    console = Console(highlight=False)
    for group in dict.fromkeys(name for name, _ in rows):
        console.print(Text(in_one_line(group), "bold"))
        console.print(table((one for name, one in rows if name == group), now_ms, console.width))


def table(circuits: Iterable[OpenCircuit], now_ms: int, width: int) -> Table:
    """A line for each where it is wide enough, else two or three."""
    made = Table(box=SIMPLE_HEAD, show_edge=False, pad_edge=False, collapse_padding=True)
    (_fill_wide if width >= _WIDE_CELLS else _fill_narrow)(made, circuits, now_ms)
    return made


def _fill_wide(made: Table, circuits: Iterable[OpenCircuit], now_ms: int) -> None:
    for name in ("member", "scope", "message"):
        made.add_column(name, overflow="fold", max_width=36)
    made.add_column("state", no_wrap=True)
    made.add_column("failures", justify="right", no_wrap=True)
    for name in ("since", "retry at"):
        made.add_column(name, no_wrap=True)
    made.add_column("error", no_wrap=True, overflow="ellipsis", ratio=1)
    for one in circuits:
        made.add_row(
            in_one_line(one.member),
            in_one_line(str(one.scope)),
            in_one_line(telling.message(one)),
            _state(one, now_ms),
            telling.failures(one),
            f"{_clock(one.since_ms)}, {telling.span(now_ms - one.since_ms)} ago",
            _when(one, now_ms),
            Text(one_line(one.error), "dim"),
        )


def _fill_narrow(made: Table, circuits: Iterable[OpenCircuit], now_ms: int) -> None:
    made.add_column("message\nmember", overflow="fold", ratio=1)
    made.add_column("state\nfailures", no_wrap=True)
    made.add_column("retry at\nopen for", no_wrap=True)
    for one in circuits:
        who = Text(f"{in_one_line(telling.message(one))}\n{in_one_line(one.member)}")
        many = "" if one.failures is None else f"\n{one.failures}"
        made.add_row(
            who,
            _state(one, now_ms).append(many, "default"),
            f"{_when(one, now_ms)}\n{telling.span(now_ms - one.since_ms)}",
        )
        made.add_row(Text(f"  {one_line(one.error)}", "dim", no_wrap=True, overflow="ellipsis"))


def _state(circuit: OpenCircuit, now_ms: int) -> Text:
    return Text(telling.state(circuit, now_ms), STYLES[circuit.state(now_ms)])


def _when(circuit: OpenCircuit, now_ms: int) -> str:
    left_ms = circuit.due_ms - now_ms
    how = f"in {telling.span(left_ms + 999)}" if left_ms > 0 else f"{telling.span(-left_ms)} ago"
    return f"{_clock(circuit.due_ms)}, {how}"


def _clock(at_ms: int) -> str:
    """The time of day, for what is beside it says how far away that is."""
    whole = moment(at_ms)
    return whole[11:] if whole.endswith("Z") else whole
