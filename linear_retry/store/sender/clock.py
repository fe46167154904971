"""The clock of a sender whose messages are due at once."""

import time
from collections.abc import Callable

from sqlalchemy import Connection

from linear_retry.store.database import Database


class ForwardClock:
    """The database's clock, which continues here where it is set back there.

    What an outbox has stored would else wait until that clock has come so far again. Belongs to one
    thread.
    """

    def __init__(self, database: Database, now_s: Callable[[], float] = time.monotonic) -> None:
        self._database, self._now_s = database, now_s
        self._latest_ms, self._at_s = 0, 0.0

    def now_ms(self, connection: Connection) -> int:
        """Returns the time, never an earlier one than before."""
        now_ms, at_s = self._database.now_ms(connection), self._now_s()
        if now_ms < self._latest_ms:
            now_ms = self._latest_ms + round((at_s - self._at_s) * 1000)
        self._latest_ms, self._at_s = now_ms, at_s
        return now_ms
