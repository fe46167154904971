"""Whatever an entry of a journal says can be shown on a terminal, in a pipe and as JSON."""

import io
import json
import re
from typing import get_args

from hypothesis import given, settings
from hypothesis import strategies as st
from rich.cells import cell_len
from rich.console import Console

from linear_retry.cli.circuits import formats
from linear_retry.cli.output.rows import json_line
from linear_retry.cli.watch.screen import Screen
from linear_retry.cli.watch.watch import event_line
from linear_retry.events import Event, KeyBlocked, WaitingBehind
from linear_retry.journal.entry import Entry, encode, read_entry
from linear_retry.journal.group_state import GroupStates
from linear_retry.journal.standing import Standing
from linear_retry.scope import Scope
from tests.journal.journal_entries import entries
from tests.journal.journal_story import GROUP, Life, outage

_NOW_MS = 1_795_298_170_643


@settings(max_examples=30)
@given(st.lists(st.sampled_from(get_args(Event)).flatmap(entries), max_size=4))
def test_whatever_it_says_can_be_printed(output: list[Entry]) -> None:
    """No exception, no line too many, and nothing that moves a cursor."""
    fold = GroupStates()
    read = [entry for entry in (read_entry(encode(one)) for one in output) if fold.take(entry)]
    lines = [event_line(entry) for entry in read if isinstance(entry, Entry)]
    for group in fold.groups:
        view = fold.view(group)
        reported = formats.view_json(view, _NOW_MS, Standing("no-member", 3))
        assert reported == json.loads(json_line(reported))
        for circuit in view.circuits:
            lines += formats.cells(group, circuit, _NOW_MS)
        shown = _picture(fold, group)
        assert (True, True) == (len(shown) <= 40, max(map(cell_len, shown)) <= 80)
        lines += shown
    assert [] == [line for line in lines if not line.isprintable()]


def test_a_retry_line_by_the_name_that_kafka_has() -> None:
    """Its entries are under the name of its live line, which is said to who took the other one."""
    fold = GroupStates()
    for entry in outage(_NOW_MS):
        fold.take(entry)
    texts = [formats.no_such_group(f"{GROUP}{end}", fold, "journal") for end in (".retry", "2")]
    ours = f"those of its retry line are in {GROUP!r}"
    assert [True, False] == [text.endswith(ours) for text in texts]


def test_a_blocked_key_has_no_time() -> None:
    """It says what it waits for, where others have the time left, and what waits behind it."""
    fold = GroupStates()
    held = Scope("orders", 0, "5a1b7acd8a3f"), "orders", 0, 42
    life = Life("pod-1")
    fold.take(life.says(_NOW_MS - 60_000, KeyBlocked(*held, "refused", 3)))
    fold.take(life.says(_NOW_MS - 10_000, WaitingBehind(*held, 17)))
    (circuit,) = fold.view(GROUP).circuits
    cells = dict(zip(formats.HEAD, formats.cells(GROUP, circuit, _NOW_MS), strict=True))
    assert ("open, operator", "-", "3") == (cells["state"], cells["retry_at"], cells["failures"])
    assert "17" == cells["behind"]
    shown = " ".join(_picture(fold, GROUP))
    assert re.search(r"open +blocked +orders\[0\]@42, .*waits for an operator", shown)
    assert "17 messages wait behind it" in " ".join(shown.split())


def _picture(fold: GroupStates, group: str) -> list[str]:
    shown = io.StringIO()
    screen = Screen(
        Console(file=io.StringIO(), width=80, height=40),
        fold,
        group,
        "linear-retry.journal",
        now_ms=lambda: _NOW_MS,
    )
    Console(file=shown, width=80, height=40).print(screen.picture())
    return shown.getvalue().splitlines()
