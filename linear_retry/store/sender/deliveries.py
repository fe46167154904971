"""Sends the batches of several leases at once."""

from collections.abc import Callable, Sequence
from concurrent.futures import Future, ThreadPoolExecutor, wait

from linear_retry.store.lanes import LEASES
from linear_retry.store.records import StoredMessage
from linear_retry.store.sender.batch import Outcome
from linear_retry.store.sender.delivery import Delivery


class Deliveries:
    """What is under way: at most one batch of each lease, in a thread of its own.

    A destination without a leader, or with too few replicas, fails after seconds only: meanwhile
    the other leases' messages must not wait.
    """

    def __init__(self, delivery: Delivery) -> None:
        self._delivery = delivery
        self._threads = ThreadPoolExecutor(LEASES, "linear_retry sender")
        self._under_way: dict[int, Future[list[Outcome]]] = {}

    @property
    def busy(self) -> frozenset[int]:
        """The leases of which something is under way."""
        return frozenset(self._under_way)

    def is_ready(self, number: int) -> bool:
        return self._delivery.producers.is_ready(number)

    def initialise(self, number: int) -> None:
        """Begins to fence the earlier producers of this lease. Take it first."""

        def call() -> list[Outcome]:
            self._delivery.producers.initialise(number)
            return []

        self._begin(number, call)

    def send(self, number: int, messages: Sequence[StoredMessage]) -> None:
        """Begins to send these of a lease that is ready."""
        self._begin(number, lambda: self._delivery.send(number, messages))

    def keep(self, numbers: frozenset[int]) -> None:
        """Drops the producers of all other leases."""
        self._delivery.producers.keep(numbers)

    def ended(self, within_s: float) -> list[Future[list[Outcome]]]:
        """Waits for all that is under way, but no longer than that; returns what has ended."""
        wait(self._under_way.values(), within_s)
        done = [number for number, each in self._under_way.items() if each.done()]
        return [self._under_way.pop(number) for number in done]

    def close(self) -> None:
        """Returns at once: a thread that still waits ends by itself."""
        self._threads.shutdown(wait=False)

    def _begin(self, number: int, call: Callable[[], list[Outcome]]) -> None:
        self._under_way[number] = self._threads.submit(call)
