"""Writes the log of a service's command to stderr."""

import logging
import sys

from linear_retry.cli.output.rows import json_line
from linear_retry.log.lines import FIELD_PREFIX


def log_to_stderr(*, as_json: bool) -> None:
    """From INFO on; with `as_json` one object on each line: time, level, text, and the fields."""
    handler = logging.StreamHandler(sys.stderr)
    form = "%(asctime)s %(levelname)s %(message)s"
    handler.setFormatter(_JsonFormatter() if as_json else logging.Formatter(form))
    logging.basicConfig(level=logging.INFO, handlers=[handler])
    # The one names the kind of database at each look at the store, the other says when it closes.
    for library in ("alembic", "py4j"):
        logging.getLogger(library).setLevel(logging.WARNING)


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
