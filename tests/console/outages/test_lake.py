"""What `linear-retry spark episodes` has found is read without Java."""

from pathlib import Path

from linear_retry.console.outages.lake import LakeEpisodes
from linear_retry.journal.episodes import Episodes
from linear_retry.scope import Place
from tests.console.outages.lakes import write_episodes
from tests.spark.history.recorded_outages import NOON_MS, instance


def test_its_episodes_are_those_of_the_journal(tmp_path: Path) -> None:
    """The same values as folded from the entries themselves; the older ones on demand alone."""
    entries = list(instance("billing", [5000, 20_000, 90_000], [1000, 10_000, 60_000]))
    write_episodes(tmp_path, entries)
    folded = Episodes()
    for entry in entries:
        folded.take(entry)
    lake = LakeEpisodes(str(tmp_path))
    found = sorted(lake.since(0), key=lambda each: each.began_ms)
    assert folded.since(0, ()) == found
    assert (None, Place("orders", 3, 0)) == (lake.trouble, found[0].held)
    assert found[1:] == sorted(lake.since(NOON_MS + 60_000), key=lambda each: each.began_ms)


def test_where_there_is_no_lake(tmp_path: Path) -> None:
    """It says so, and nothing fails."""
    lake = LakeEpisodes(str(tmp_path / "nope"))
    assert ([], True) == (lake.since(0), "nope/episodes: cannot be read (" in (lake.trouble or ""))
