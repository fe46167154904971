"""The picture of a group shows how it stands, and fits where it is shown."""

import io
import re
from collections.abc import Iterable

import pytest
from rich.console import Console

from linear_retry import events as e
from linear_retry.cli.circuits.listing import circuit_table
from linear_retry.cli.watch.screen import Screen
from linear_retry.journal.entry import Entry, Process, Unreadable
from linear_retry.journal.group_state import GroupStates
from linear_retry.journal.standing import Standing
from linear_retry.scope import Scope
from tests.journal.journal_story import GROUP, Life, at, failed, opened, outage

_NOW_MS = 1_795_298_170_643
_P0, _P1 = ("orders", 0), ("orders", 1)


def _fold(entries: Iterable[Entry]) -> GroupStates:
    fold = GroupStates()
    for entry in entries:
        fold.take(entry)
    return fold


def _picture(
    fold: GroupStates,
    width: int = 80,
    height: int = 24,
    trouble: str | None = None,
    standing: Standing = Standing("live"),  # noqa: B008  (frozen)
) -> list[str]:
    console = Console(file=io.StringIO(), width=width, height=height, force_terminal=True)
    screen = Screen(console, fold, GROUP, "linear-retry.journal", now_ms=lambda: _NOW_MS)
    with screen:
        screen.show([], trouble, standing)
        shown = io.StringIO()
        Console(file=shown, width=width, height=height).print(screen.picture())
    return shown.getvalue().splitlines()


@pytest.mark.parametrize("width", [60, 80, 120, 200])
@pytest.mark.parametrize("height", [24, 50])
def test_the_picture_fits(width: int, height: int) -> None:
    """However many members, circuits and events there are, and however long their names."""
    crowd = [Life(f"a-pod-with-quite-a-long-name-{number}") for number in range(30)]
    more = [life.says(_NOW_MS - 9000, opened((life.member, 1), 1, _NOW_MS)) for life in crowd]
    for entries in (outage(_NOW_MS), outage(_NOW_MS) + more, []):
        lines = _picture(_fold(entries), width, height)
        assert (True, True) == (len(lines) <= height, max(map(len, lines)) <= width), lines


def test_a_group_of_which_nothing_is_known() -> None:
    """No entry of it is there: it said that no circuit is open, as of one that is well."""
    lines = "\n".join(_picture(_fold([])))
    assert (True, False) == ("nothing is known" in lines, "no circuit is open" in lines)


def test_the_picture_says_what_is_out() -> None:
    """How often a message left for a retry topic, and until when the last waits, while it does."""
    life = Life("pod-1")
    due = at(_NOW_MS + 65_000), at(_NOW_MS - 5)
    left = [e.SentToRetry(*_P0, 1, "orders.retry.5m", "id", 1, 1, one, "down", 2) for one in due]
    text = "\n".join(_picture(_fold([life.says(_NOW_MS, one) for one in left]), 120))
    assert "0 recovered, 0 dead letters, 2 sent to retry (the last is due at 21:57:15Z)" in text
    taken = life.says(_NOW_MS, e.HandedOver(*_P0, 2, "id", "down", 3))
    lines = _picture(_fold([life.says(_NOW_MS, left[1]), taken]), 120)
    assert any(line.endswith("0 dead letters, 1 sent to retry, 1 handed over") for line in lines)


def test_the_picture_says_that_no_member_lives() -> None:
    """A killed member is "closed" in its journal for ever, and nothing said that nobody reads."""
    fold = _fold([Life("pod-1").says(_NOW_MS, e.Assigned((_P0,)))])
    words = {
        Standing("no-member", 1500): "no live member, 1,500 waiting",
        Standing("no-member", 1500, is_least=True): "no live member, at least 1,500 waiting",
        Standing("no-member"): "no live member, unknown how many waiting",
        Standing("unknown"): "liveness unknown: Kafka gives no answer about this group",
        Standing("past"): "past: Kafka knows no such group any more",
    }
    for standing, text in words.items():
        assert text in _picture(fold, 120, standing=standing)[1]


def test_the_picture_shows_the_state() -> None:
    """The worst first; what a killed member had is told with who has it; then the last events."""
    lines = _picture(_fold(outage(_NOW_MS)), 120, 40)
    text = "\n".join(lines)
    assert "members: 2 open, 1 silent, 1 stopped; 0 recovered, 0 dead letters" in text
    assert re.search(r"^pod-1 +open +orders\[0-4\] +3s ago$", text, re.MULTILINE)
    assert re.search(r"-0d8f3a7e2c11 +silent +went to pod-1: orders\[3-4\] +1h5m ago", text)
    assert "open       in 3m24s   orders[0]@1042, pod-1, 2 failures, open for 5m10s" in text
    assert re.search(r"^half-open  for 5s +orders\.with.*, billing-consumer", text, re.MULTILINE)
    assert "letter not sent (3 times), pauses" in " ".join(text.split())
    assert lines[-1].endswith("pod-1 assigned: orders[3], orders[4]")


@pytest.mark.parametrize(
    ("event", "words"),
    [
        (opened(_P0, 7, _NOW_MS + 1), "open       in 1s "),
        (opened(_P0, 7, _NOW_MS), "half-open  for 0s "),
        (opened(_P0, 7, _NOW_MS + 1, Scope(*_P0)), "1 failure, pauses orders[0] only"),
        (opened(_P0, 7, _NOW_MS + 1, Scope("orders")), "1 failure, pauses orders only,"),
        (failed(_P0, 7, 3, _NOW_MS + 86_400_000), "open       in 24h "),
        (
            e.LimitReached(Scope(), *_P0, 7, "bad", 3, 1.0, at(_NOW_MS), 20),
            "3 failures, held by the limit",
        ),
        (e.RetriedNow(Scope(), *_P0, 7, 3, 50.0), "half-open  for 9s "),
    ],
)
def test_a_circuit_is_shown(event: e.Event, words: str) -> None:
    """Its state, how long it is until the attempt, or since that began, and what it stops."""
    written = [Life("pod-1").says(_NOW_MS - 9000, e.Assigned((_P0,)))]
    written.append(Entry("pod-1", 2, _NOW_MS - 9000, GROUP, "pod-1", event))
    assert words in "\n".join(_picture(_fold(written), 120))


def test_a_member_is_traced_to_its_process() -> None:
    """A member without `group.instance.id` is a UUID, which no orchestrator knows."""
    process = Process("node-3", 4711, "billing-7")
    written = [Entry("u", 1, _NOW_MS, GROUP, "u", e.Assigned((_P0,)), process)]
    written.append(Entry("u", 2, _NOW_MS, GROUP, "u", opened(_P0, 7, _NOW_MS + 9000), process))
    lines = _picture(_fold(written), 120)
    assert 2 == sum("node-3, pid 4711, client.id billing-7" in line for line in lines)


def test_a_circuit_that_holds_nothing() -> None:
    """Its message went with the partition; it stops the others still."""
    life = Life("pod-1")
    written = [life.says(1, e.Assigned((_P0, _P1))), life.says(2, opened(_P0, 7, _NOW_MS + 9))]
    written.append(life.says(3, e.Revoked((_P0,))))
    assert "no message, pod-1" in "\n".join(_picture(_fold(written), 120))


def test_problems_are_shown() -> None:
    """What is missing or unreadable, and why nothing comes now."""
    life = Life("pod-1")
    fold = _fold([life.says(_NOW_MS, e.Assigned(())) for _ in range(5)][::2])
    fold.take(Unreadable("no JSON"))
    text = "\n".join(_picture(fold, 120, trouble="localhost:9092: all brokers\x1b are down"))
    for words in (
        "2 events are not in the journal: dropped",
        "1 record is not a journal entry of a journal",
        "localhost:9092: all brokers  are down; it continues once they are back",
    ):
        assert words in text


def test_a_group_without_entries() -> None:
    """It may yet: what others there are is told meanwhile."""
    fold = _fold([Life("p-1", group="parcels").says(_NOW_MS, e.Assigned((_P0,)))])
    text = "\n".join(_picture(fold, 120))
    assert f"group '{GROUP}' has no entries in linear-retry.journal in this time" in text
    assert "groups with entries: parcels" in text


def test_who_left_long_ago_is_gone() -> None:
    """A static member that will be back is not."""
    gone, back = Life("gone"), Life("back")
    fold = _fold(
        [
            gone.says(_NOW_MS - 601_000, e.Stopped(left_group=True)),
            back.says(_NOW_MS - 601_000, e.Stopped(left_group=False)),
        ]
    )
    text = "\n".join(_picture(fold))
    assert re.search("^back +stopped", text, re.MULTILINE)
    assert not re.search("^gone +stopped", text, re.MULTILINE)


@pytest.mark.parametrize("width", [60, 80, 120, 200])
def test_circuits_in_a_list_fit_too(width: int) -> None:
    """Names are folded and errors cut; each circuit has its error in one line."""
    shown = io.StringIO()
    circuits = _fold(outage(_NOW_MS)).view(GROUP).circuits
    Console(file=shown, width=width).print(circuit_table(circuits, _NOW_MS))
    lines = shown.getvalue().splitlines()
    assert width >= max(map(len, lines))
    assert ["21:59:34Z  again"] == [line.strip() for line in lines if "again" in line]
