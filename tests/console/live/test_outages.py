"""Outages are drawn where they were, each once, and no more bars than a screen can show."""

import random

from linear_retry import events as e
from linear_retry.console.live.outages import KINDS, Bar, History, kind_of, timeline
from linear_retry.events import CloseOutcome
from linear_retry.journal.episodes import Episode
from linear_retry.journal.outages import Outage
from linear_retry.scope import Scope
from tests.journal.journal_story import GROUP, Life, opened

_DAY_MS = 86_400_000
_NOW_MS = 20_000 * _DAY_MS


def _outage(
    began_ms: int,
    length_ms: int,
    outcome: CloseOutcome | None = "recovered",
    group: str = "billing",
    *,
    is_open: bool = False,
) -> Outage:
    known = Episode(
        group=group,
        member="pod",
        instance="pod",
        scope=Scope(),
        sequence=1,
        last_ms=began_ms + length_ms,
        opened_ms=began_ms,
        outcome=outcome,
        is_open=is_open,
    )
    return Outage((known,))


def test_a_bar_is_where_the_outage_was() -> None:
    """In per cent of the time that is drawn; its title says when, how long, and how it ended."""
    half_ms = _NOW_MS - _DAY_MS // 2
    drawn = timeline([_outage(half_ms, 5_400_000, "dead-lettered")], _NOW_MS - _DAY_MS, _NOW_MS)
    title = "2024-10-03 12:00 UTC, open for 1h30m: messages were given up"
    assert [(Bar(50.0, 6.25, "given-up", title),)] == [lane.bars for lane in drawn.lanes]
    assert ["00:00", "03:00", "06:00"] == [tick.text for tick in drawn.ticks[:3]]


def test_what_is_open_lasts_until_now() -> None:
    """However long ago its last entry was, and before the time that is drawn."""
    drawn = timeline(
        [_outage(_NOW_MS - 3 * _DAY_MS, 1000, None, is_open=True)], _NOW_MS - _DAY_MS, _NOW_MS
    )
    [bar] = drawn.lanes[0].bars
    assert (0.0, 100.0, "open") == (bar.x, bar.width, bar.kind)
    assert "open for 72h: open now" in bar.title


def test_the_worst_end_of_several_is_shown() -> None:
    """Outages that would touch are one bar, with their number."""
    beginnings = [_NOW_MS - _DAY_MS // 2 + number * 1000 for number in range(3)]
    outcomes: tuple[CloseOutcome, ...] = ("recovered", "skipped", "recovered")
    outages = [_outage(*each) for each in zip(beginnings, (10,) * 3, outcomes, strict=True)]
    [bar] = timeline(outages, _NOW_MS - _DAY_MS, _NOW_MS).lanes[0].bars
    assert ("given-up", True) == (bar.kind, bar.title.startswith("3 outages from 2024-10-03"))


def test_bars_never_leave_the_line_or_overlap() -> None:
    """Of ten thousand outages at any time a few hundred bars; 30 groups, the others counted."""
    rng = random.Random(1)
    outages = [
        _outage(
            _NOW_MS - rng.randrange(9 * _DAY_MS),
            rng.choice([0, 10, rng.randrange(100_000)]),
            group=f"group-{rng.randrange(40)}",
        )
        for _ in range(10_000)
    ]
    drawn = timeline(outages, _NOW_MS - 7 * _DAY_MS, _NOW_MS)
    assert (30, 10) == (len(drawn.lanes), drawn.left_out)
    for lane in drawn.lanes:
        ends = [bar.x + bar.width for bar in lane.bars]
        assert all(0 <= bar.x <= 100 for bar in lane.bars)
        assert max(ends) < 100.01
        beginnings = [bar.x for bar in lane.bars[1:]]
        assert all(end < x + 0.01 for end, x in zip(ends, beginnings, strict=False))


def test_every_end_has_its_words() -> None:
    """Also one that nobody wrote down, and one whose message left the line."""
    outcomes: tuple[CloseOutcome | None, ...] = (None, "sent-to-retry", "dropped", "recovered")
    kinds = [kind_of(_outage(0, 1, outcome)) for outcome in outcomes]
    assert ["unknown", "left-line", "unknown", "recovered"] == kinds
    assert set(kinds) < set(KINDS)


def test_what_is_open_is_what_the_groups_state_says() -> None:
    """A circuit that its member left open is open only as long as that member is there."""
    open_now = {(GROUP, "pod-1", Scope())}
    history = History(lambda: open_now)
    life = Life("pod-1")
    history.take(life.says(1000, opened(("orders", 0), 7, 6000)))
    history.take(life.says(1001, e.Assigned((("orders", 0),))))
    assert [True] == [each.is_open for each in history.since(0).outages]
    open_now.clear()
    assert [False] == [each.is_open for each in history.since(0).outages]
    assert [] == history.since(5000).outages
    history.begin()
    assert [] == history.since(0).outages
