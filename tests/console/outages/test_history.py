"""The outages of the journal, as they are now."""

from linear_retry import events as e
from linear_retry.console.outages.history import History
from linear_retry.scope import Scope
from tests.journal.journal_story import GROUP, Life, opened


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
