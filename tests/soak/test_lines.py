"""A member that grows is distinguished from one that does not."""

import os
from collections import Counter

from tests.soak.__main__ import summary
from tests.soak.gauges import Gauge, gauge
from tests.soak.judgement import Judgement
from tests.soak.lines import Life, Look, verdicts

_MIB = 2**20


def _life(
    *, leak_bytes: int = 0, more_files: int = 0, forgotten: int = 0, seconds: int = 60
) -> Life:
    """So many seconds, with so much more at each look, once a second."""
    gauges = [
        Gauge(float(at), 40 * _MIB + at * leak_bytes, 20 + at * more_files // 30, 12)
        for at in range(seconds)
    ]
    looks = [Look(float(at), 44 + at * forgotten, 4) for at in range(seconds)]
    return Life("member-1", gauges, looks)


def _not_flat(life: Life) -> list[str]:
    return [verdict.line.name for verdict in verdicts([life], 12.0) if not verdict.is_flat]


def test_a_steady_member_is_flat() -> None:
    """Nothing is found where nothing grows."""
    assert [] == _not_flat(_life())


def test_each_kind_of_growth_is_found() -> None:
    """Memory, files and retained state: each by its own line."""
    assert ["memory"] == _not_flat(_life(leak_bytes=_MIB // 10))
    assert ["open files"] == _not_flat(_life(more_files=2))
    assert ["entries/partition"] == _not_flat(_life(forgotten=1))


def test_what_fills_up_is_not_judged_by_a_few_seconds() -> None:
    """A process that has little of the machine fills its arenas, and its state, late: it looked
    like a leak."""
    assert [] == _not_flat(_life(leak_bytes=_MIB // 10, forgotten=1, seconds=30))
    assert ["open files"] == _not_flat(_life(more_files=4, seconds=30))


def test_memory_may_grow_with_the_openings() -> None:
    """By what is known to be lost in the C heap for each of them, and no more."""
    life = _life(leak_bytes=60_000)
    assert ["memory"] == _not_flat(life)
    life.openings = 5_000
    assert [] == _not_flat(life)


def test_a_process_that_is_gone_has_no_gauge() -> None:
    """A member that is killed while it is looked at is no error."""
    assert gauge(2**22 + 1, 0.0) is None
    seen = gauge(os.getpid(), 1.0)
    assert seen is not None
    assert seen.resident_bytes > _MIB
    assert (seen.open_files, seen.threads) >= (1, 1)


def test_a_line_that_is_not_flat_spoils_the_end() -> None:
    """The report says which line, and the soak has failed."""
    lines = verdicts([_life(more_files=2)], 12.0)
    judgement = Judgement([], lines, Counter(), 0, 60.0)
    assert not judgement.is_good
    (shown,) = [one for one in judgement.to_json()["lines"] if not one["flat"]]
    assert ("member-1", "open files", 1.0) == (shown["member"], shown["line"], shown["may_grow"])
    assert "every guarantee holds" in list(summary(judgement))
