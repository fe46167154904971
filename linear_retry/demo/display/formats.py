"""How is an event told in one line, or in one JSON object?"""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import asdict
from datetime import datetime

from linear_retry import events as e
from linear_retry.demo.evidence import Noted, Verdict
from linear_retry.scope import Partition


def line(event: e.Event) -> str:
    """A short text without colours; the consumer's own log says more."""
    match event:
        case e.CircuitOpened():
            return f"circuit OPEN    {_wait(event)}"
        case e.ProbeFailed():
            return f"probe FAILED    {_wait(event)}"
        case e.CircuitClosed():
            return f"circuit CLOSED  {event.outcome} after {event.open_s:.1f} s"
        case e.DeadLettered():
            place = f"{event.partition}@{event.offset}"
            return f"DEAD LETTER     {place}: {event.reason}, {event.error}"
        case e.Assigned() | e.Revoked() | e.Lost():
            return f"{type(event).__name__.lower():<15} partitions {_numbers(event.partitions)}"
        case _:
            return f"{type(event).__name__:<15} {_fields(event)}"


def json_line(noted: Noted, started_s: float) -> str:
    """One JSON object: `at_s` (since the start), `event`, and the event's own fields."""
    told = {"at_s": round(noted.at_s - started_s, 4), "event": type(noted.event).__name__}
    return json.dumps(told | asdict(noted.event), default=_plain)


def json_proof(verdicts: Iterable[Verdict]) -> str:
    """One JSON object: `proof`, a list of the verdicts, and whether all of them hold."""
    told = [
        {
            "claim": verdict.claim,
            "figures": verdict.figures,
            "holds": verdict.holds,
            "violations": verdict.violations,
        }
        for verdict in verdicts
    ]
    return json.dumps({"proof": told, "holds": all(verdict["holds"] for verdict in told)})


def _wait(event: e.CircuitOpened | e.ProbeFailed) -> str:
    return (
        f"{event.partition}@{event.offset}: failure {event.failures}, "
        f"wait {event.delay_s:g} s: {event.error}"
    )


def _numbers(partitions: tuple[Partition, ...]) -> str:
    return ", ".join(str(number) for _, number in partitions) or "none"


def _fields(event: e.Event) -> str:
    return ", ".join(f"{name}={value}" for name, value in asdict(event).items())


def _plain(value: object) -> str:
    return value.isoformat() if isinstance(value, datetime) else str(value)
