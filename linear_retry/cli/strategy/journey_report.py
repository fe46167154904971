"""Formats simulated outages in which messages leave the line for retry topics."""

from collections.abc import Sequence
from typing import Any

from linear_retry.cli.output.rows import plural
from linear_retry.cli.strategy import simulation_report
from linear_retry.strategy.delays import duration_text
from linear_retry.strategy.retry_topics import Journey

_ATTEMPTS = ("attempt", "made in", "starts at", "result", "then waits")
_OUTAGES = ("outage", "attempts", "ends", "at", "idle", "leave", "line back at", "line idle")


def attempts(journey: Journey) -> list[tuple[str, ...]]:
    """Returns a header, and a row for each attempt of the first message, or for many equal ones."""
    _, *rows = simulation_report.attempts(journey.message)
    return [_ATTEMPTS, *((row[0], _place(row[0], journey), *row[1:]) for row in rows)]


def outages(journeys: Sequence[Journey]) -> list[tuple[str, ...]]:
    """Returns a header, and a row for each journey."""
    return [_OUTAGES, *map(_outage, journeys)]


def verdict(journey: Journey) -> tuple[str, str]:
    """Says how it ends for the first message, and for those behind it."""
    attempt = journey.message.ending.attempt
    where = f", in {_place(str(attempt), journey)}" if attempt > journey.in_line else ""
    left = "no message leaves"
    if journey.left:
        left = f"{plural(journey.left, 'message')} {'leaves' if journey.left == 1 else 'leave'}"
    held = ", and the next is held" if journey.is_held else ""
    back = (duration_text(journey.line_idle_ms), duration_text(journey.line_back_ms))
    return (
        f"{simulation_report.verdict(journey.message)}{where}",
        f"{left} the line{held}; the line is back {back[0]} after the outage, at {back[1]}",
    )


def verdict_of_all(journeys: Sequence[Journey]) -> tuple[str, str]:
    """Summarises several outages: for the first messages, and for those behind them."""
    worst = duration_text(max(journey.line_idle_ms for journey in journeys))
    return (
        f"first message: {simulation_report.verdict_of_all([one.message for one in journeys])}",
        f"line: back within {worst} after each outage",
    )


def limit(waits_out_ms: int) -> str:
    """Says which outages lead to no dead letter."""
    if waits_out_ms == 0:
        return "any outage leads to dead letters"
    return f"outages of up to {duration_text(waits_out_ms)} lead to no dead letter"


def as_json(journey: Journey, waits_out_ms: int) -> dict[str, Any]:
    """Returns it like a simulation without jitter; `in_line` attempts precede the first step."""
    message = simulation_report.as_json(journey.message, waits_out_ms)
    return {
        **{key: value for key, value in message.items() if key not in _OF_JITTER},
        "in_line": journey.in_line,
        "left": journey.left,
        "is_held": journey.is_held,
        "line_ended_s": journey.line_back_ms / 1000,
        "line_idle_s": journey.line_idle_ms / 1000,
    }


_OF_JITTER = {"idle_min_s", "idle_max_s", "may_give_up"}


def _place(numbers: str, journey: Journey) -> str:
    """Returns where a row's attempts are made; no row has attempts in both."""
    steps = [int(number) - journey.in_line for number in numbers.split(" to ")]
    if steps[0] <= 0:
        return "the line"
    return "step " + " to ".join(map(str, steps))


def _outage(journey: Journey) -> tuple[str, ...]:
    outage, attempts, ends, at, idle, *_ = simulation_report.outages([journey.message], False)[1]
    back = (duration_text(journey.line_back_ms), duration_text(journey.line_idle_ms))
    held = f"{journey.left}, one held" if journey.is_held else str(journey.left)
    return outage, attempts, ends, at, idle, held, *back
