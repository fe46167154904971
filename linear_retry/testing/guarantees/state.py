"""State: what a consumer keeps does not grow without bound."""

from linear_retry.testing.event_log import Entry, StateSize
from linear_retry.testing.guarantees.guarantee import Guarantee


class BoundedState(Guarantee):
    """A member never keeps more entries of state than allowed (`StateSize`)."""

    def feed(self, entry: Entry) -> None:
        if isinstance(entry, StateSize) and entry.entries > entry.limit:
            text = f"{entry.member} keeps {entry.entries} entries, at most {entry.limit} may be"
            self._violate(text, entry, entry, member=entry.member)
