"""The whole pipeline on a fleet: a week of outages, the commands, and what they must find.

Two of the twelve services are real: consumers on the broker, with a week of seconds. What the
others would write in a week that ends now is written beside it, in the library's own formats.
"""

import time
import uuid
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from threading import Event

from examples.fleet.model import DAYS, FLEET, Calendar, Service, Week
from examples.fleet.real_members import PARTITIONS as REAL_PARTITIONS
from examples.fleet.real_members import Member, RealOutcome, Topics, fill, running
from examples.fleet.simulated_members import PARTITIONS, ServiceHistory, simulate
from examples.fleet.verdicts import Lake, TuningGoal, compare, judge_tuned
from linear_retry.demo.display import without_log_lines
from linear_retry.demo.evidence import Verdict
from linear_retry.kafka.producers.acknowledged import write_all
from linear_retry.kafka.quiet import QUIET
from linear_retry.kafka.topics.temporary import temporary_topics
from linear_retry.records.record import OutgoingRecord, Record
from linear_retry.retry.clock import now_ms

RunCommand = Callable[[Sequence[str]], None]
"""Runs `linear-retry` with these arguments, and shows what it prints."""


@dataclass(frozen=True, slots=True)
class FleetPlan:
    """The size of the run. By default a week of 18,000 entries, and 20 s of real consumers."""

    services: tuple[Service, ...] = FLEET
    day_ms: int = 86_400_000
    real_day_ms: int = 3_000
    seed: int = 1
    tuning: TuningGoal = field(default_factory=TuningGoal)


def run(
    bootstrap: str,
    directory: Path,
    run_command: RunCommand,
    show: Callable[[str], object],
    warn: Callable[[str], object],
    plan: FleetPlan,
) -> tuple[Verdict, ...]:
    """Runs the week and the commands, and judges what they found. Leaves `directory` filled.

    Topics and groups of unique names, removed at the end.
    """
    with _borrowed(bootstrap, plan, warn) as topics:
        model, real = _live(topics, plan, show)
        strategy = directory / f"{plan.tuning.group}.json"
        for arguments in _commands(topics, directory, strategy, plan.tuning):
            run_command(arguments)
        (service,) = (each for each in plan.services if each.group == plan.tuning.group)
        return (
            *compare(Lake.read(directory / "lake"), model, real),
            judge_tuned(service, model[service.group], strategy, plan.tuning),
        )


def _commands(topics: Topics, directory: Path, strategy: Path, goal: TuningGoal) -> list[list[str]]:
    """The commands that a user would run, in order."""
    lake = ["--lake", str(directory / "lake")]
    where = ["--bootstrap", topics.bootstrap, "--dead-letters", topics.dead_letters]
    where += ["--journal", topics.journal]
    asked = ["--probe-cost", f"{goal.probe_cost_s:g}", "--cover", f"{goal.cover:g}"]
    group = ["--group", goal.group]
    return [
        ["spark", "ingest", *where, *lake],
        ["spark", "episodes", *lake],
        ["spark", "report", *lake, "--to", str(directory / "report.html")],
        ["spark", "tune", *lake, *group, *asked, "--to", str(strategy)],
        ["strategy", "check", str(strategy)],
    ]


def _real(plan: FleetPlan) -> list[Service]:
    return [service for service in plan.services if service.is_real]


@contextmanager
def _borrowed(bootstrap: str, plan: FleetPlan, warn: Callable[[str], object]) -> Iterator[Topics]:
    topics = Topics(bootstrap, f"linear-retry-demo-{uuid.uuid4().hex[:8]}")
    groups = [topics.of(service) for service in _real(plan)]
    wanted = dict.fromkeys(groups, REAL_PARTITIONS)
    wanted |= {topics.journal: PARTITIONS, topics.dead_letters: PARTITIONS}
    # The brokers' default is a week: the entries of its first day would be removed at once.
    forever = {"retention.ms": "-1"}
    with temporary_topics(bootstrap, wanted, groups=groups, complain=warn, config=forever):
        yield topics


def _live(
    topics: Topics, plan: FleetPlan, show: Callable[[str], object]
) -> tuple[dict[str, ServiceHistory], tuple[RealOutcome, ...]]:
    real, week_s = _real(plan), DAYS * plan.real_day_ms / 1000
    for service in real:
        fill(service, topics, week_s)
    members = [Member(service, topics) for service in real]
    with without_log_lines(), running(members) as stop:
        for member in members:
            member.wait()
        week = Week(now_ms(), plan.real_day_ms)
        for member in members:
            member.begin(week, plan.seed)
        names = " and ".join(service.group for service in real)
        show(f"{names}: real consumers, for {week_s:g} s")
        generated = Week(week.begins_ms - DAYS * plan.day_ms, plan.day_ms)
        model = _write_simulated(topics, plan, generated, show)
        while (left_s := week.ends_ms / 1000 - time.time()) > 0:
            Event().wait(left_s)
        return model, stop()


def _write_simulated(
    topics: Topics, plan: FleetPlan, week: Week, show: Callable[[str], object]
) -> dict[str, ServiceHistory]:
    model = {}
    for service in plan.services:
        if not service.is_real:
            calendar = Calendar.of(service, week, plan.seed)
            model[service.group] = simulate(service, calendar, week, plan.seed, topics.dead_letters)
    records = [record for each in model.values() for record in _records(each, topics)]
    records.sort(key=lambda record: record.timestamp_ms)
    keys = {"bootstrap.servers": topics.bootstrap, "enable.idempotence": True}
    count = len(
        write_all(QUIET | {"partitioner": "murmur2_random"} | keys, map(_outgoing, records))
    )
    episodes = sum(len(each.episodes) for each in model.values())
    show(f"{len(model)} simulated services: {count:,} records of a week, {episodes:,} outages")
    return model


def _outgoing(record: Record) -> OutgoingRecord:
    """A negative partition is the one of its key."""
    partition = record.partition if record.partition >= 0 else None
    headers, at_ms = record.headers, record.timestamp_ms
    return OutgoingRecord(record.topic, record.key, record.value, headers, partition, at_ms)


def _records(each: ServiceHistory, topics: Topics) -> Iterator[Record]:
    yield from each.journal(topics.journal)
    yield from (record for _, record in each.letters)
