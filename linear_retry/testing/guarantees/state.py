"""Does a consumer keep more and more?"""

from __future__ import annotations

from linear_retry.testing.event_log import Entry, Kept
from linear_retry.testing.guarantees.guarantee import Guarantee, all_but


class BoundedState(Guarantee):
    """A member never keeps more entries of state than it may (`Kept`)."""

    _passes_over = all_but(Kept)

    def feed(self, entry: Entry) -> None:
        if isinstance(entry, Kept) and entry.entries > entry.most:
            text = f"{entry.member} keeps {entry.entries} entries, at most {entry.most} may be"
            self._break(text, entry, entry, member=entry.member)
