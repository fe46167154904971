"""Finds the open letters that a replay would leave behind newer ones of their keys."""

from hashlib import blake2b

from linear_retry.dlq.spill import Spilled

_CHUNK = 1_000
_SEND = (
    "INSERT INTO sent VALUES (?, ?, ?) ON CONFLICT DO UPDATE SET last = max(last, excluded.last)"
)


class Earlier(Spilled):
    """Compares what is sent with what is not, key by key. Use it in a `with`.

    What exceeds some megabytes is in a temporary file. Messages without a key have no order to
    keep. All methods raise `DiskFullError`.
    """

    def __init__(self) -> None:
        super().__init__(
            "CREATE TABLE sent (source, key, last, PRIMARY KEY (source, key)) WITHOUT ROWID",
            "CREATE TABLE kept (source, key, place)",
        )
        self._numbers: dict[object, int] = {}
        self._sent: list[tuple[object, ...]] = []
        self._kept: list[tuple[object, ...]] = []

    def send(self, source: object, key: bytes | None, place: int) -> None:
        """Notes that the letter at this place in the order of its source is sent."""
        self._add(self._sent, source, key, place)

    def keep(self, source: object, key: bytes | None, place: int) -> None:
        """Notes that this one stays open."""
        self._add(self._kept, source, key, place)

    def count(self) -> int:
        """Counts those that stay open, although a later one of the same key is sent."""
        self._flush()
        query = "SELECT count(*) FROM kept JOIN sent USING (source, key) WHERE place < last"
        return int(self._first(query)[0])

    def _add(
        self, rows: list[tuple[object, ...]], source: object, key: bytes | None, place: int
    ) -> None:
        if key is None:
            return
        number = self._numbers.setdefault(source, len(self._numbers))
        rows.append((number, blake2b(key, digest_size=16).digest(), place))
        if len(rows) >= _CHUNK:
            self._flush()

    def _flush(self) -> None:
        self._write(_SEND, self._sent)
        self._write("INSERT INTO kept VALUES (?, ?, ?)", self._kept)
        self._sent.clear()
        self._kept.clear()
