"""Proposed delays cost little more than the best ones for outages of a known distribution."""

import numpy as np
import pytest

from benchmarks.tuning_optimum import LAWS, Amount, tuned
from tests.strategy.tuning.recorded import recorded

_DOUBLING = tuple(min(1000 * 2**number, 300_000) for number in range(400))


@pytest.mark.parametrize("name", LAWS)
@pytest.mark.parametrize("price_ms", [1000.0, 20_000.0])
def test_from_two_hundred_outages_it_is_near_the_best(name: str, price_ms: float) -> None:
    """No more than 25 % over it for each distribution, and no worse than any fixed interval with as
    many attempts, to 0.1 %; the benchmark tries more seeds, and other running strategies."""
    law_ms = 1000 * LAWS[name]()
    true_ms = np.ceil(np.random.default_rng(0).choice(law_ms, 200))
    amount = Amount(200, 0.95, 25.0)
    found = tuned(law_ms, recorded(true_ms, _DOUBLING, 0.3, 0), amount, price_ms)
    assert found.over <= amount.over
    assert found.over_fixed <= 0.1
