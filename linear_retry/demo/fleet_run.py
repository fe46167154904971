"""The whole pipeline on a fleet: a week of outages, what is found of them, and whether it is true.

Two of the twelve services are real: consumers on the broker, of a week of seconds. What the others
would write in a week that ends now is written beside it, in the library's own formats.
"""

from __future__ import annotations

import time
import uuid
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from threading import Event

from linear_retry.demo.display.quiet import without_log_lines
from linear_retry.demo.evidence import Verdict
from linear_retry.demo.fleet import DAYS, FLEET, Calendar, Service, Week
from linear_retry.demo.fleet_lives import PARTITIONS, Said, said
from linear_retry.demo.fleet_members import PARTITIONS as REAL_PARTITIONS
from linear_retry.demo.fleet_members import Lived, Member, Topics, fill, living
from linear_retry.demo.fleet_truth import Found, Tuned, compare, tuned
from linear_retry.kafka.topics.plain import borrowed_topics, write
from linear_retry.records.record import Record

Run = Callable[[Sequence[str]], None]
"""Runs `linear-retry` with these arguments, and shows what it says."""


@dataclass(frozen=True, slots=True)
class Plan:
    """How much of it. The defaults are a week of 18,000 entries, and 20 s of real consumers."""

    services: tuple[Service, ...] = FLEET
    day_ms: int = 86_400_000
    real_day_ms: int = 3_000
    seed: int = 1
    tuned: Tuned = field(default_factory=Tuned)


def run(
    bootstrap: str,
    directory: Path,
    command: Run,
    tell: Callable[[str], object],
    complain: Callable[[str], object],
    plan: Plan,
) -> tuple[Verdict, ...]:
    """Live the week, call the commands, and judge what they found. Leaves `directory` filled.

    Topics and groups of unique names, removed at the end.
    """
    with _borrowed(bootstrap, plan, complain) as topics:
        model, real = _lived(topics, plan, tell)
        strategy = directory / f"{plan.tuned.group}.json"
        for arguments in _commands(topics, directory, strategy, plan.tuned):
            command(arguments)
        (service,) = (each for each in plan.services if each.group == plan.tuned.group)
        return (
            *compare(Found.of(directory / "lake"), model, real),
            tuned(service, model[service.group], strategy, plan.tuned),
        )


def _commands(topics: Topics, directory: Path, strategy: Path, wanted: Tuned) -> list[list[str]]:
    """What a user would call, one after another."""
    lake = ["--lake", str(directory / "lake")]
    where = ["--bootstrap", topics.bootstrap, "--dead-letters", topics.dead_letters]
    where += ["--journal", topics.journal]
    asked = ["--probe-cost", f"{wanted.probe_cost_s:g}", "--cover", f"{wanted.cover:g}"]
    group = ["--group", wanted.group]
    return [
        ["spark", "ingest", *where, *lake],
        ["spark", "outages", *lake],
        ["spark", "report", *lake, "--to", str(directory / "report.html")],
        ["spark", "tune", *lake, *group, *asked, "--to", str(strategy)],
        ["strategy", "check", str(strategy)],
    ]


def _real(plan: Plan) -> list[Service]:
    return [service for service in plan.services if service.is_real]


@contextmanager
def _borrowed(bootstrap: str, plan: Plan, complain: Callable[[str], object]) -> Iterator[Topics]:
    topics = Topics(bootstrap, f"linear-retry-demo-{uuid.uuid4().hex[:8]}")
    groups = [topics.of(service) for service in _real(plan)]
    wanted = dict.fromkeys(groups, REAL_PARTITIONS)
    wanted |= {topics.journal: PARTITIONS, topics.dead_letters: PARTITIONS}
    # The brokers' default is a week: what was said on its first day would be gone at once.
    forever = {"retention.ms": "-1"}
    with borrowed_topics(bootstrap, wanted, groups=groups, complain=complain, config=forever):
        yield topics


def _lived(
    topics: Topics, plan: Plan, tell: Callable[[str], object]
) -> tuple[dict[str, Said], tuple[Lived, ...]]:
    real, week_s = _real(plan), DAYS * plan.real_day_ms / 1000
    for service in real:
        fill(service, topics, week_s)
    members = [Member(service, topics) for service in real]
    with without_log_lines(), living(members) as stop:
        for member in members:
            member.wait()
        week = Week(time.time_ns() // 1_000_000, plan.real_day_ms)
        for member in members:
            member.begin(week, plan.seed)
        names = " and ".join(service.group for service in real)
        tell(f"{names}: real consumers, for {week_s:g} s")
        generated = Week(week.begins_ms - DAYS * plan.day_ms, plan.day_ms)
        model = _written(topics, plan, generated, tell)
        while (left_s := week.ends_ms / 1000 - time.time()) > 0:
            Event().wait(left_s)
        return model, stop()


def _written(
    topics: Topics, plan: Plan, week: Week, tell: Callable[[str], object]
) -> dict[str, Said]:
    model = {}
    for service in plan.services:
        if not service.is_real:
            calendar = Calendar.of(service, week, plan.seed)
            model[service.group] = said(service, calendar, week, plan.seed, topics.dead_letters)
    records = [record for each in model.values() for record in _records(each, topics)]
    records.sort(key=lambda record: record.timestamp_ms)
    count = write(topics.bootstrap, records)
    episodes = sum(len(each.episodes) for each in model.values())
    tell(f"{len(model)} services more: {count:,} records of a week with {episodes:,} outages met")
    return model


def _records(each: Said, topics: Topics) -> Iterator[Record]:
    yield from each.journal(topics.journal)
    yield from (record for _, record in each.letters)
