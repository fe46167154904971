"""Each lease's producer has an id that is the same in every instance."""

from collections.abc import Mapping
from typing import Any

from linear_retry.store.sender.producers import LeaseProducers


class _Initialised:
    """Answers at once, and notes how it was made."""

    def __init__(self, config: Mapping[str, Any]) -> None:
        self.config = config

    def init_transactions(self, _: float) -> None:
        """Succeeds."""


def _instance(made: list[_Initialised]) -> LeaseProducers:
    def make(config: Mapping[str, Any]) -> _Initialised:
        made.append(_Initialised(config))
        return made[-1]

    return LeaseProducers({"bootstrap.servers": "b"}, "linear-retry-store", lambda: False, make)


def test_the_next_holder_of_a_lease_has_the_same_id() -> None:
    """So brokers fence its earlier holder, and nobody else."""
    made: list[_Initialised] = []
    first, second = _instance(made), _instance(made)
    for instance in (first, second):
        instance.initialise(1)
        instance.initialise(2)
    ids = [each.config["transactional.id"] for each in made]
    assert ["linear-retry-store-1", "linear-retry-store-2"] * 2 == ids


def test_a_producer_is_dropped_with_its_lease() -> None:
    """The lease's next epoch begins with a new one."""
    producers = _instance([])
    producers.initialise(1)
    producers.initialise(2)
    producers.keep(frozenset({2}))
    assert (False, True) == (producers.is_ready(1), producers.is_ready(2))
