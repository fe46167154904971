"""The journal and the lake together have each episode once."""

from dataclasses import replace

from linear_retry import events as e
from linear_retry.console.outages.history import History, joined
from linear_retry.console.outages.lake import LakeEpisodes
from linear_retry.journal.episodes import Episode
from linear_retry.scope import Scope
from tests.journal.journal_story import GROUP, Life, opened

_OLDER = Episode(
    group="billing",
    member="pod",
    instance="pod",
    scope=Scope(),
    sequence=1,
    last_ms=5000,
    opened_ms=1000,
)


def test_what_both_have_is_one_episode() -> None:
    """As the journal has it, which goes on after the lake was brought up to date."""
    in_lake = replace(_OLDER, sequence=9, opened_ms=60_000, last_ms=60_000)
    in_journal = replace(in_lake, last_ms=70_000, outcome="recovered", attempts=4)
    first, second = joined([in_journal], [_OLDER, in_lake])
    assert ((_OLDER,), (in_journal,)) == (first.episodes, second.episodes)


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


def test_a_lake_that_cannot_be_read_is_said() -> None:
    """Beside what the journal has."""
    known = History(set).since(0, LakeEpisodes("/nowhere"))
    assert ["/nowhere/episodes: cannot be read"] == [
        text.partition(" (")[0] for text in known.troubles
    ]
