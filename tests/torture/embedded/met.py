"""Counts the errors that a client has met, of those that the brokers had ready."""

from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager

from linear_retry.kafka.embedded.cluster import EmbeddedKafka
from linear_retry.kafka.embedded.mock_cluster import RequestKind
from tests.torture.layer import Counts


class ErrorsMet:
    """Has brokers answer with errors. Each request of a kind takes one of those that are ready.

    A request that is on its way as they are made ready, or dropped, may be counted wrongly.
    """

    def __init__(
        self, kafka: EmbeddedKafka, asked: Callable[[], Mapping[tuple[int, str], int]]
    ) -> None:
        """`asked` is what `kafka.counting()` gives."""
        self.counts: Counts = Counter()
        self._kafka, self._asked = kafka, asked
        self._ready: Counter[str] = Counter()
        self._seen: Counter[str] = Counter()
        self._lasting: set[RequestKind] = set()

    @contextmanager
    def failing(self, kind: RequestKind, error: int) -> Iterator[None]:
        """Every request of this kind."""
        self._look()
        with self._kafka.failing(kind, error):
            self._lasting.add(kind)
            try:
                yield
            finally:
                self._look()
                self._lasting.discard(kind)
                self._ready.pop(kind, None)

    def fail(self, kind: RequestKind, error: int, times: int) -> None:
        """The next ones."""
        self._look()
        self._kafka.fail(kind, *[error] * times)
        self._ready[kind] += times

    def clear(self) -> None:
        """What nobody has met until now is dropped."""
        self._look()
        self._kafka.clear_errors()
        self._ready.clear()

    def _look(self) -> None:
        """What was asked since the last look was answered with what was ready then."""
        asked: Counter[str] = Counter()
        for (_, kind), times in self._asked().items():
            asked[kind] += times
        for kind in {*self._ready, *self._lasting}:
            new = asked[kind] - self._seen[kind]
            met = new if kind in self._lasting else min(new, self._ready[kind])
            self._ready[kind] -= met
            self.counts[f"errors of {kind} met"] += met
        self._seen = asked
