"""Reads a time from an option."""

from __future__ import annotations

from datetime import UTC, datetime

import typer

from linear_retry.strategy.delays import duration_ms, shown


def moment_ms(text: str, now_ms: int, option: str) -> int:
    """A time, or how long ago, in milliseconds of UTC. Raises `typer.BadParameter`."""
    ago_ms = duration_ms(text)
    if ago_ms is not None:
        return round(now_ms - ago_ms)
    try:
        moment = datetime.fromisoformat(text.strip())
    except ValueError:
        raise typer.BadParameter(
            f"{shown(text)} is no time; write 2026-11-21, 2026-11-21T10:00 (UTC, unless it says "
            f'+02:00), or how long ago, such as "2h", "1h30m" or "7d"',
            param_hint=option,
        ) from None
    aware = moment.replace(tzinfo=UTC) if moment.tzinfo is None else moment
    return round(aware.timestamp() * 1000)
