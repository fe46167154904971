"""How is librdkafka kept from writing lines of its own on stderr?"""

from __future__ import annotations

from typing import Any


class _Nobody:
    """Takes what librdkafka would write. `log_level` 0 still lets its fatal errors through."""

    def log(self, *_: object) -> None:
        """All that matters is raised."""


SILENT: dict[str, Any] = {"log_level": 0, "logger": _Nobody(), "error_cb": lambda _: None}
