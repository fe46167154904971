"""Draws a watched group on a terminal."""

import time
from bisect import bisect_right
from collections.abc import Callable, Sequence
from typing import Self

from rich.box import SIMPLE_HEAD
from rich.console import Console, Group, RenderableType
from rich.live import Live
from rich.table import Table
from rich.text import Text

from linear_retry.cli.circuits import formats
from linear_retry.cli.circuits.listing import STYLES as CIRCUIT_STYLES
from linear_retry.cli.circuits.listing import circuit_table, clock, drawn
from linear_retry.journal.entry import Entry
from linear_retry.journal.group_state import (
    Counts,
    GroupStates,
    GroupView,
    Member,
    MemberState,
    OpenCircuit,
)
from linear_retry.journal.standing import Standing
from linear_retry.log.event_text import text_of
from linear_retry.records.durations import span_text
from linear_retry.records.printable import in_one_line, moment
from linear_retry.retry.clock import now_ms as utc_now_ms
from linear_retry.scope import partitions_text

_EVERY_S = 1.0
_ORDER: tuple[MemberState, ...] = ("open", "silent", "closed", "idle", "stopped")
_STYLES = {
    **CIRCUIT_STYLES,
    "silent": "magenta",
    "closed": "green",
    "idle": "dim",
    "stopped": "dim",
}
_NAME_CELLS = 24
_EVENTS_AT_LEAST = 3


class Screen:
    """A live view, redrawn every second and at each event; it fills the terminal.

    The last view stays when the `with` ends.
    """

    def __init__(
        self,
        console: Console,
        states: GroupStates,
        group: str,
        topic: str,
        *,
        now_ms: Callable[[], int] = utc_now_ms,
    ) -> None:
        self._console, self._states, self._group, self._topic = console, states, group, topic
        self._now_ms = now_ms
        self._trouble: str | None = None
        self._standing = Standing(is_asked=False)
        self._draw_at_s = 0.0
        self._size = console.size
        self._live = Live(console=console, auto_refresh=False, screen=True, redirect_stderr=False)

    def __enter__(self) -> Self:
        self._live.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._live.stop()
        self._console.print(self.picture())

    def show(self, news: Sequence[Entry], trouble: str | None, standing: Standing) -> None:
        self._standing = standing
        now_s, size = time.monotonic(), self._console.size
        if news or (trouble, size) != (self._trouble, self._size) or now_s >= self._draw_at_s:
            self._trouble, self._size, self._draw_at_s = trouble, size, now_s + _EVERY_S
            self._live.update(self.picture(), refresh=True)

    def picture(self) -> RenderableType:
        """The current view, in as many lines as the terminal has."""
        view, now_ms = self._states.view(self._group), self._now_ms()
        lines_left = self._console.size.height
        top = Group(*self._head(view, now_ms), Text())
        lines_left -= self._lines(top)
        members = sorted(view.present(now_ms), key=_rank)
        is_live = self._standing.liveness == "live"
        who = self._fitting(
            lambda n: _members(members[:n], now_ms, is_live=is_live), len(members), lines_left // 2
        )
        lines_left -= self._lines(who)
        all_open, limit = view.circuits, lines_left - _EVENTS_AT_LEAST
        what = self._fitting(
            lambda n: _circuits(all_open[:n], now_ms, is_live=is_live), len(all_open), limit
        )
        if not view.members:
            what = Text("nothing is known of its circuits\n")
        lines_left -= self._lines(what)
        return Group(top, who, what, *map(_event, view.last_events[-max(lines_left, 1) :]))

    def _head(self, view: GroupView, now_ms: int) -> list[Text]:
        first = Text(in_one_line(self._group), "bold")
        first.append(f"  {moment(now_ms)}  {in_one_line(self._topic)}", "not bold dim")
        states = [one.state for one in view.members]
        done = _counted(view.counts, now_ms)
        counts = ", ".join(f"{states.count(one)} {one}" for one in _ORDER if one in states)
        second = [Text(f"members: {counts}; {done}")] if view.members else []
        amiss = formats.amiss(self._states, self._group, self._topic, self._trouble)
        return [
            _cut(first),
            _cut(drawn(self._standing)),
            *second,
            *(Text(one, "yellow") for one in amiss),
        ]

    def _fitting(
        self, draw: Callable[[int], RenderableType], count: int, lines_left: int
    ) -> RenderableType:
        """Shows as many rows as fit, at least one, the number of others, and an empty line."""

        def whole(shown: int) -> RenderableType:
            more = [Text(f"and {count - shown} more", "dim")] if shown < count else []
            return Group(draw(shown), *more, Text())

        # Rows only add lines, and drawing is slow: so search, instead of adding one by one.
        choices = range(1, min(count, lines_left) + 1)
        fit = bisect_right(choices, lines_left, key=lambda shown: self._lines(whole(shown)))
        return whole(min(max(fit, 1), count))

    def _lines(self, shown: RenderableType) -> int:
        return len(self._console.render_lines(shown, pad=False))


def _members(members: Sequence[Member], now_ms: int, *, is_live: bool) -> RenderableType:
    table = Table(box=SIMPLE_HEAD, show_edge=False, pad_edge=False, collapse_padding=True)
    table.expand = True
    table.add_column("member", overflow="fold", ratio=2)
    table.add_column("state", no_wrap=True)
    table.add_column("partitions", no_wrap=True, overflow="ellipsis", ratio=3)
    table.add_column("last event", no_wrap=True, justify="right")
    for one in members:
        table.add_row(
            _named(one),
            # Green is for what is known to be well, and a killed member stays "closed".
            Text(one.state, _STYLES[one.state] if is_live or one.state != "closed" else ""),
            Text(in_one_line(_partitions(one))),
            f"{span_text(now_ms - one.last_event_ms)} ago",
        )
    return table


def _named(member: Member) -> Text:
    text = Text(in_one_line(member.member))
    if member.process is not None:
        text.append(f"\n{in_one_line(str(member.process))}", "dim")
    return text


def _circuits(circuits: Sequence[OpenCircuit], now_ms: int, *, is_live: bool) -> RenderableType:
    if circuits:
        return circuit_table(circuits, now_ms)
    return Text("no circuit is open", "green" if is_live else "")


def _counted(counts: Counts, now_ms: int) -> str:
    retries = f", {counts.retries} sent to retry" if counts.retries else ""
    if counts.retries_until_ms > now_ms:
        retries += f" (the last is due at {clock(counts.retries_until_ms)})"
    handed = f", {counts.handed_over} handed over" if counts.handed_over else ""
    skipped = f", {counts.skipped} skipped" if counts.skipped else ""
    return f"{counts.recoveries} recovered, {counts.letters} dead letters{retries}{handed}{skipped}"


def _rank(member: Member) -> tuple[int, int, str]:
    """Sorts the worst first; among stopped members, the last to stop."""
    is_gone = member.state in ("silent", "stopped")
    return _ORDER.index(member.state), -member.last_event_ms * is_gone, member.member


def _partitions(member: Member) -> str:
    here = partitions_text(member.partitions)
    if not member.taken:
        return here or "-"
    to = ", ".join(sorted(set(member.taken.values())))
    taken = f"went to {to}: {partitions_text(member.taken)}"
    return f"{here}; {taken}" if here else taken


def _event(entry: Entry) -> Text:
    text = text_of(entry.event)
    member = in_one_line(entry.member)
    short = member if len(member) <= _NAME_CELLS else f"{member[: _NAME_CELLS - 1]}…"
    return _cut(
        Text.assemble((clock(entry.at_ms), "dim"), f" {short} ", (in_one_line(text), "dim"))
    )


def _cut(text: Text) -> Text:
    text.no_wrap, text.overflow = True, "ellipsis"
    return text
