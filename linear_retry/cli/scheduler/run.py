"""Runs the scheduler's service, with its log on stderr."""

from linear_retry.cli.output.log import log_to_stderr
from linear_retry.cli.scheduler.http_options import HttpOptions
from linear_retry.scheduler.service import SchedulerService, SchedulerSettings
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
