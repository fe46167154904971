"""The points of its life at which a replay is struck."""

from collections.abc import Callable
from typing import Any

from confluent_kafka import Producer

from linear_retry.kafka import Producer as RealProducer

POINTS: tuple[str, ...] = (
    "planned",
    "before init_transactions",
    "after init_transactions",
    "before begin_transaction 1",
    "after begin_transaction 1",
    "after produce 1",
    "after produce 2",
    "after produce 9",
    "before commit_transaction 1",
    "amid commit_transaction 1",
    "after commit_transaction 1",
    "before begin_transaction 2",
    "after produce 15",
    "before commit_transaction 2",
    "amid commit_transaction 2",
    "after commit_transaction 2",
    "before begin_transaction 4",
    "amid commit_transaction 4",
    "after commit_transaction 4",
    "replayed",
)
"""The number of each is its place. New ones go to the end of all: seeds stay what they are."""


def reporting(at_point: Callable[[str], None]) -> Callable[..., Producer]:
    """Makes producers that report each point, before they go on.

    `amid` a commit is reported before librdkafka is asked for it: the strike comes a little later.
    """

    class ReportingProducer(RealProducer):
        def __init__(self, config: dict[str, Any]) -> None:
            super().__init__(config)
            self._begun = self._produced = self._asked = 0

        def init_transactions(self, *arguments: Any) -> None:
            at_point("before init_transactions")
            super().init_transactions(*arguments)
            at_point("after init_transactions")

        def begin_transaction(self) -> None:
            self._begun += 1
            at_point(f"before begin_transaction {self._begun}")
            super().begin_transaction()
            at_point(f"after begin_transaction {self._begun}")

        def produce(self, *arguments: Any, **options: Any) -> None:
            super().produce(*arguments, **options)
            self._produced += 1
            at_point(f"after produce {self._produced}")

        def commit_transaction(self, *arguments: Any) -> None:
            if self._asked < self._begun:  # it may be asked again for the answer
                self._asked = self._begun
                at_point(f"before commit_transaction {self._begun}")
                at_point(f"amid commit_transaction {self._begun}")
            super().commit_transaction(*arguments)
            at_point(f"after commit_transaction {self._begun}")

    return ReportingProducer
