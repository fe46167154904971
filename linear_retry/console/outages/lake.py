"""The episodes in a lake's table `episodes`, read without Spark and without Java."""

import time
from threading import Lock
from typing import Any

from deltalake import DeltaTable, QueryBuilder
from deltalake.exceptions import DeltaError

from linear_retry.journal.episodes import Episode
from linear_retry.scope import Place, Scope

_TABLE = "episodes"
_KEPT_S = 60.0
_MOST = 20_000
_COLUMNS = (
    *("group", "member", "instance", "scope_topic", "scope_partition", "sequence", "last_at_ms"),
    *("opened_at_ms", "message_topic", "message_partition", "message_offset", "error"),
    *("outcome", "open_s", "clock_ms"),
)
_NAMES = ", ".join(f'"{name}"' for name in _COLUMNS)
_QUERY = (
    f"SELECT {_NAMES}, cardinality(probes) AS failed, "
    f"CASE WHEN kind = 'open' THEN retry_at_ms END AS retry_at_ms FROM {_TABLE} "
    f"ORDER BY last_at_ms DESC LIMIT {_MOST}"
)


class LakeEpisodes:
    """The episodes of a lake, as `linear-retry spark episodes` has found them; read once a minute.

    None is open: that is what they were when the command ran, and the journal knows more. Of more
    than 20,000 the latest are read.
    """

    def __init__(self, lake: str) -> None:
        self.place = f"{lake.rstrip('/')}/{_TABLE}"
        self.trouble: str | None = None
        self._lock = Lock()
        self._known: list[Episode] = []
        self._read_at_s: float | None = None

    def since(self, since_ms: int) -> list[Episode]:
        """Returns those that ended then or later; `trouble` says why it cannot be read."""
        with self._lock:
            now_s = time.monotonic()
            if self._read_at_s is None or now_s >= self._read_at_s + _KEPT_S:
                self._read()
                self._read_at_s = now_s
            return [each for each in self._known if each.ended_ms >= since_ms]

    def _read(self) -> None:
        self.trouble = None
        try:
            table = DeltaTable(self.place)
            query = QueryBuilder().register(_TABLE, table).execute(_QUERY)
            found = query.read_all()
        except DeltaError as error:
            reason = str(error).partition("\n")[0]
            self.trouble = f"{self.place}: cannot be read ({reason}); see --lake"
        else:
            columns = [found.column(name).to_pylist() for name in found.column_names]
            rows = zip(*columns, strict=True)
            self._known = [
                _episode(dict(zip(found.column_names, row, strict=True))) for row in rows
            ]


def _episode(row: dict[str, Any]) -> Episode:
    held = tuple(row[f"message_{name}"] for name in ("topic", "partition", "offset"))
    return Episode(
        group=row["group"],
        member=row["member"],
        instance=row["instance"],
        scope=Scope(row["scope_topic"], row["scope_partition"]),
        sequence=row["sequence"],
        last_ms=row["last_at_ms"],
        attempts=1 + (row["failed"] or 0),
        opened_ms=row["opened_at_ms"],
        held=None if None in held else Place(*held),
        error=row["error"],
        outcome=row["outcome"],
        open_s=row["open_s"],
        retry_at_ms=row["retry_at_ms"],
        clock_ms=row["clock_ms"] or 0,
    )
