"""Are delays proposed only where there are outages enough to say so?"""

from __future__ import annotations

import numpy as np
import pytest

from linear_retry.strategy_solver import Conditions, Solution, Unreachable
from linear_retry.tuning.outages import Outages
from linear_retry.tuning.proposing import TooFew, cover_known, outages_needed, propose
from tests.tuning.recorded import lengths_ms, recorded

LONG_MS = (1000, *[5000] * 10, *[60_000] * 60, *[3_600_000] * 24)


@pytest.mark.parametrize(("cover", "needed"), [(0.5, 5), (0.95, 59), (0.99, 299), (0.999, 2995)])
def test_how_many_outages_are_needed(cover: float, needed: int) -> None:
    """With one fewer, all of them would last no longer than the share in over 1 case of 20."""
    assert needed == outages_needed(cover)
    assert cover**needed <= 0.05 < cover ** (needed - 1)


def test_no_number_of_outages_is_enough_for_all() -> None:
    """However many have ended, the next may last longer."""
    outages = recorded(lengths_ms(2, 40), LONG_MS)
    assert TooFew(40, None, 0.927) == propose(outages, 1000, Conditions(cover=1))


def test_with_too_few_nothing_is_proposed() -> None:
    """It says how many there are, how many it takes, and what could be asked of these."""
    outages = recorded(lengths_ms(2, 298), LONG_MS)
    assert TooFew(298, 299, 0.989) == propose(outages, 1000, Conditions(cover=0.99))
    assert TooFew(0, 299, None) == propose(Outages.of([], []), 1000, Conditions(cover=0.99))


@pytest.mark.parametrize("ended", [1, 5, 59, 298, 299, 3000])
def test_the_cover_that_is_offered_can_be_had(ended: int) -> None:
    """What `TooFew` says could be asked is not refused."""
    cover = cover_known(ended)
    assert cover is not None
    needed = outages_needed(cover)
    assert needed is not None
    assert needed <= ended


def test_what_is_proposed_covers_what_was_asked() -> None:
    """Of the true lengths, unknown to it, 0.99 end before the proposed delays do, or nearly."""
    true_ms = lengths_ms(3, 1000)
    found = propose(recorded(true_ms, LONG_MS, jitter=0.2), 5000, Conditions(cover=0.99))
    assert isinstance(found, Solution)
    assert found.cost.covered >= 0.99 - 1e-9
    assert np.mean(true_ms <= sum(found.delays_ms)) >= 0.98


def test_outages_that_were_given_up_are_not_covered() -> None:
    """Where a strategy ran out in a tenth of them, no delays are known that cover 0.95."""
    true_ms = lengths_ms(4, 1000)
    at_ms = np.quantile(true_ms, 0.9)
    found = propose(recorded(true_ms, [int(at_ms / 10)] * 10), 5000, Conditions(cover=0.95))
    assert isinstance(found, Unreachable)
    assert found.covered == pytest.approx(0.9, abs=0.01)
