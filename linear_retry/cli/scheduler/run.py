"""Runs the scheduler's service, with its log on stderr, and resets the offset of its intake."""

from collections.abc import Mapping
from typing import Any

import typer

from linear_retry.cli.options.http import HttpOptions
from linear_retry.cli.output.log import log_to_stderr
from linear_retry.cli.output.rows import write_json
from linear_retry.cli.store.options import ChangeOptions
from linear_retry.scheduler import intake
from linear_retry.scheduler.changes import Reason
from linear_retry.scheduler.service import SchedulerService, SchedulerSettings
from linear_retry.scope import Partition, Scope
from linear_retry.store.database import Database
from linear_retry.store.migrations import migrate


def run(
    database: Database, settings: SchedulerSettings, http: HttpOptions, *, as_json: bool
) -> None:
    """Runs it until a signal."""
    log_to_stderr(as_json=as_json)
    if database.is_sqlite:
        migrate(database)
    service = SchedulerService(database, settings)
    with http.serving_api(database, service):
        service.run()


def reset_offset(
    database: Database,
    config: Mapping[str, Any],
    partition: Partition,
    offset: int | None,
    options: ChangeOptions,
    *,
    as_json: bool,
) -> None:
    """Sets it, or says what it would set."""
    reason = Reason(options.actor, options.why) if options.yes else None
    found = intake.reset_offset(database, config, partition, offset, reason)
    if as_json:
        topic, number = partition
        about = {"before": found.before, "offset": found.offset, "done": options.yes}
        bounds = {"first": found.first, "end": found.end}
        write_json([{"topic": topic, "partition": number, **about, **bounds}])
        return
    before = "no offset" if found.before is None else f"offset {found.before}"
    change = f"{Scope(*partition)} from {before} to offset {found.offset}"
    if options.yes:
        typer.echo(f"reset: {change}")
    else:
        has = f"it begins at offset {found.first} and ends before {found.end}"
        typer.echo(f"would reset {change} ({has}); do it with --yes")
