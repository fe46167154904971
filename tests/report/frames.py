"""Small tables as Spark would have made them, of a week in three groups, with hostile texts."""

from typing import Any

import numpy as np
import pandas as pd  # type: ignore[import-untyped]  # it has no types

from linear_retry.report.section import Tables

HOUR_MS = 3_600_000
MONDAY_MS = 1_795_392_000_000
HOSTILE = (
    "</script><script>document.title='run'</script><img src=x onerror=alert(1)>\u2028'\"&{{7*7}}"
)
GROUPS = ("billing", "payments-of-the-whole-company-and-of-all-its-daughters", HOSTILE)


def week(seed: int = 1) -> Tables:
    """All tables, with enough rows for each chart."""
    rng = np.random.default_rng(seed)
    return {
        "groups": pd.DataFrame(_group(name, rng) for name in GROUPS),
        "outages_over_time": pd.DataFrame(_stretches(rng)),
        "durations": pd.DataFrame(row for name in GROUPS for row in _curve(name, rng)),
        "duration_quantiles": pd.DataFrame(row for name in GROUPS for row in _ends(name)),
        "proposals": pd.DataFrame(_proposals()),
        "letters": pd.DataFrame(_letters()),
        "letters_over_time": pd.DataFrame(
            _stretch(hour, reason="exhausted" if hour % 3 else "permanent", letters=1 + hour % 7)
            for hour in range(0, 168, 5)
        ),
        "keys": pd.DataFrame(_keys()),
        "errors": pd.DataFrame(_errors()),
        "events": pd.DataFrame([_event("DataLost", 1), _event("CommitFailed", 4)]),
    }


def _group(name: str, rng: np.random.Generator) -> dict[str, Any]:
    down_s, unsure_s, other_s = map(float, rng.uniform(600, 40_000, 3))
    return {
        "group": name,
        "outages": 120,
        "members": 3,
        "recovered": 100,
        "given_up": 12,
        "left_line": 3,
        "known_end": 90,
        "unknown_length": 10,
        "still_open": 1,
        "with_missing_entries": 2,
        "first_ms": MONDAY_MS,
        "last_ms": MONDAY_MS + 168 * HOUR_MS,
        "blocked_s": down_s + unsure_s + other_s,
        "down_s": down_s,
        "unsure_s": unsure_s,
        "other_s": other_s,
        "failed_attempts": 700,
    }


def _stretch(hour: int, **more: Any) -> dict[str, Any]:
    from_ms = MONDAY_MS + hour * HOUR_MS
    return {"from_ms": from_ms, "until_ms": from_ms + 3 * HOUR_MS, **more}


def _stretches(rng: np.random.Generator) -> list[dict[str, Any]]:
    return [
        _stretch(hour, group=name, outages=int(rng.integers(1, 9)), blocked_s=float(seconds))
        for name in GROUPS
        for hour in range(0, 168, 3)
        for seconds in [rng.exponential(2000)]
        if rng.random() < 0.5
    ]


def _curve(name: str, rng: np.random.Generator) -> list[dict[str, Any]]:
    median_s = rng.uniform(20, 400)
    after_s = np.geomspace(1, 90_000, 80)
    lasting = 1 / (1 + (after_s / median_s) ** 1.5)
    return [
        {
            "group": name,
            "after_s": float(after),
            "lasting": float(share),
            "low": float(share) * 0.85,
            "high": min(1.0, float(share) * 1.1 + 0.02),
        }
        for after, share in zip(after_s, lasting, strict=True)
    ]


def _ends(name: str) -> list[dict[str, Any]]:
    common = {"group": name, "outages": 110, "known_end": 90}
    return [
        {**common, "ended": 0.5, "after_s": 70.0, "low_s": 61.5, "high_s": 90.0},
        {**common, "ended": 0.95, "after_s": 700.0, "low_s": 610.0, "high_s": None},
        {**common, "ended": 0.99, "after_s": None, "low_s": 9000.0, "high_s": None},
    ]


def _proposals() -> list[dict[str, Any]]:
    """One that may be used, one that failed its check, and one that there is not."""
    first = {
        "verdict": "proposed",
        "delays": '["47s", {"every": "1m", "times": 4}, "10m"]',
        "ends_after_s": 887.0,
        "covers": 0.97,
        "current_covers": 0.99,
        "saved_s": 140.0,
        "saved_low_s": 120.0,
        "saved_high_s": 160.0,
        "gap_from_s": 36.0,
        "gap_until_s": 336.0,
        "gap_share": 0.4,
        "gap_cost_s": 15.0,
        "gap_first_s": 76.0,
        "gap_second_s": 160.0,
    }
    second = {**first, "verdict": "not confirmed", "covers": 0.9, "saved_low_s": -3.0}
    third = {"verdict": "too few", "ended": 12, "needed": 59}
    common = {"outages": 120, "seen": 80, "probe_cost_s": 10.0, "cover": 0.95}
    each = ({**common, "ended": None, "needed": None, **row} for row in (first, second, third))
    return [{"group": name, **row} for name, row in zip(GROUPS, each, strict=True)]


def _letters() -> list[dict[str, Any]]:
    kinds = ("requests.exceptions.ConnectionError", "shop.NoSuchCustomer", HOSTILE, None)
    return [
        {
            "group": group,
            "reason": reason,
            "exception_type": kind,
            "letters": 3 + at,
            "unreadable": at % 2,
            "first_ms": MONDAY_MS,
            "last_ms": MONDAY_MS + at * HOUR_MS,
            "mean_failures": 4.5,
            "mean_waited_s": 312.0,
            "latest_text": HOSTILE,
        }
        for at, (group, reason, kind) in enumerate(
            (group, reason, kind)
            for group in (*GROUPS, None)
            for reason in ("exhausted", "permanent", "given-up", HOSTILE)
            for kind in kinds
        )
    ]


def _keys() -> list[dict[str, Any]]:
    keys = (("text", HOSTILE), ("bytes", "0xff00"), ("none", None), ("text", "customer-4711"))
    return [
        {
            "group": "billing",
            "key": key,
            "letters": 50 - at * 12,
            "exception_types": 2,
            "first_ms": MONDAY_MS,
            "last_ms": MONDAY_MS + HOUR_MS,
            "form": form,
            "size_bytes": None if key is None else len(key),
        }
        for at, (form, key) in enumerate(keys)
    ]


def error(group: str, name: str | None, **counts: int) -> dict[str, Any]:
    """A row of `errors`, with 0 for what is not said."""
    names = ("outages", "recovered", "given_up", "left_line")
    letters = ("letters_exhausted", "letters_permanent", "letters_given_up")
    none = dict.fromkeys((*names, *letters), 0)
    times = {"first_ms": MONDAY_MS, "last_ms": MONDAY_MS + HOUR_MS}
    return {"group": group, "error": name, **none, **counts, **times}


def _errors() -> list[dict[str, Any]]:
    return [
        error("billing", "ConnectionError", outages=100, recovered=90, given_up=6),
        error("billing", HOSTILE, outages=9, given_up=9),
        error(HOSTILE, "ConnectionError", letters_permanent=7),
        error("billing", None, outages=3, recovered=2),
    ]


def _event(name: str, times: int) -> dict[str, Any]:
    moments = {"first_ms": MONDAY_MS, "last_ms": MONDAY_MS + HOUR_MS}
    return {"group": "billing", "event": name, "times": times, **moments}
