"""What the console was started with."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from linear_retry.store.database import Database


@dataclass(frozen=True, slots=True, kw_only=True)
class Settings:
    """The cluster, what of it is shown, and what may be done.

    `kafka` has librdkafka's keys. The journal is read from `journal_since_ms` on, UTC. Without
    `control`, no command is sent to consumers. `state` is the directory of the console's own files.
    """

    kafka: Mapping[str, Any]
    state: Path
    journal: str
    journal_since_ms: int = 0
    control: str | None = None
    dead_letters: tuple[str, ...] = ()
    store: Database | None = None
    report: str | None = None
    """The URL of the page that `linear-retry spark report` has written."""
    schema_registry: str | None = None
    """The URL of the registry that values are decoded with."""
    is_read_only: bool = False
    shows_values: bool = False
    """Whether viewers see keys and values too."""

    @property
    def cluster(self) -> str:
        """The brokers that it was given."""
        keys = ("bootstrap.servers", "metadata.broker.list")
        return str(next(self.kafka[key] for key in keys if self.kafka.get(key)))
