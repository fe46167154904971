"""A set of offsets that is kept as runs."""

import random

import pytest

from linear_retry.records.runs import Runs


@pytest.mark.parametrize("seed", range(20))
def test_runs_are_a_set(seed: int) -> None:
    """Whatever is added in whatever order, alone or as a range, is in it, and nothing else."""
    rng = random.Random(seed)
    runs, plain = Runs(), set[int]()
    for _ in range(60):
        begin = rng.randrange(100)
        end = begin + rng.choice((0, 1, 1, 1, 2, 5, 30))
        runs.add_range(begin, end)
        plain.update(range(begin, end))
        assert plain == {offset for offset in range(-1, 140) if offset in runs}
        gaps = max(plain, default=-1) - min(plain, default=0) + 1 - len(plain)
        assert gaps == runs.missing
        assert len(runs) == sum(offset - 1 not in plain for offset in plain)
