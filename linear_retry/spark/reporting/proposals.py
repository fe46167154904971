"""Tabulates the delays that are proposed for each group."""

import json
from collections.abc import Iterable
from typing import Any

import pandas as pd  # type: ignore[import-untyped]  # it has no types

from linear_retry.spark.history.tuning import Tuned
from linear_retry.strategy.file import elements
from linear_retry.tuning.held_out import Comparison
from linear_retry.tuning.proposal import TooFew

COLUMNS = (
    *("group", "outages", "seen", "verdict", "ended", "needed", "delays", "ends_after_s"),
    *("covers", "current_covers", "saved_s", "saved_low_s", "saved_high_s"),
    *("gap_from_s", "gap_until_s", "gap_share", "gap_cost_s", "gap_first_s", "gap_second_s"),
    *("probe_cost_s", "cover"),
)


def tabulated(found: Iterable[Tuned], probe_cost_s: float, cover: float) -> pd.DataFrame:
    """A row for each group, with the price and the cover that its delays were made for."""
    rows = [_row(one) | {"probe_cost_s": probe_cost_s, "cover": cover} for one in found]
    return pd.DataFrame(rows, columns=COLUMNS)


def _row(one: Tuned) -> dict[str, Any]:
    row: dict[str, Any] = {"group": one.group, "outages": one.outages, "seen": one.seen}
    row |= {"verdict": one.verdict}
    if isinstance(one.proposal, TooFew):
        row |= {"ended": one.proposal.ended, "needed": one.proposal.needed}
    if isinstance(one.proposal, tuple):
        row |= {"delays": json.dumps(elements(one.proposal))}
        row |= {"ends_after_s": sum(one.proposal) / 1000}
    if one.comparison is not None:
        row |= _compared(one.comparison)
    if one.gap is not None:
        row |= {"gap_from_s": one.gap.from_ms / 1000, "gap_until_s": one.gap.until_ms / 1000}
        first_ms, second_ms = one.gap.attempts_ms
        row |= {"gap_share": one.gap.share, "gap_cost_s": one.gap.cost_ms / 1000}
        row |= {"gap_first_s": first_ms / 1000, "gap_second_s": second_ms / 1000}
    return row


def _compared(found: Comparison) -> dict[str, Any]:
    row = {"covers": found.proposed.covered.mean}
    if found.current is not None and found.saved is not None:
        row |= {"current_covers": found.current.covered.mean}
        saved = found.saved
        row |= {"saved_s": saved.mean / 1000}
        row |= {"saved_low_s": saved.low / 1000, "saved_high_s": saved.high / 1000}
    return row
