"""Runs the scheduler's service, with its log on stderr."""

import logging
import sys

from linear_retry.cli.output.rows import json_line
from linear_retry.cli.scheduler.http_options import HttpOptions
from linear_retry.log.lines import FIELD_PREFIX
from linear_retry.scheduler.service import SchedulerService, SchedulerSettings
from linear_retry.store.database import Database
from linear_retry.store.migrations import migrate


def run(
    database: Database, settings: SchedulerSettings, http: HttpOptions, *, as_json: bool
) -> None:
    """Runs it until a signal."""
    handler = logging.StreamHandler(sys.stderr)
    form = "%(asctime)s %(levelname)s %(message)s"
    handler.setFormatter(_JsonFormatter() if as_json else logging.Formatter(form))
    logging.basicConfig(level=logging.INFO, handlers=[handler])
    if database.is_sqlite:
        migrate(database)
    service = SchedulerService(database, settings)
    with http.serving(database, service):
        service.run()


class _JsonFormatter(logging.Formatter):
    """One object on each line: time, level, text, and the fields of the event."""

    def format(self, record: logging.LogRecord) -> str:
        fields = {
            name.removeprefix(FIELD_PREFIX): value
            for name, value in vars(record).items()
            if name.startswith(FIELD_PREFIX)
        }
        line = {"at_ms": round(record.created * 1000), "level": record.levelname}
        line |= {"text": record.getMessage(), **fields}
        if record.exc_info:
            line["traceback"] = self.formatException(record.exc_info)
        return json_line(line).decode().rstrip("\n")
