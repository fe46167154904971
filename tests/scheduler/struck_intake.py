"""An intake in a process of its own, which SIGKILL ends at a point of its second batch.

`python -m tests.scheduler.struck_intake ARGUMENTS`, with the fields of `Arguments` as JSON.
"""

import json
import os
import signal
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, Literal

from sqlalchemy import Connection

from linear_retry import LinearConsumer
from linear_retry.errors import StoreError
from linear_retry.kafka import Message
from linear_retry.scheduler.destinations import Destinations
from linear_retry.scheduler.intake import Intake
from linear_retry.store.database import Database

BATCH = 10


@dataclass(frozen=True, slots=True)
class Arguments:
    """`dies`: before or after the commit of the second batch; None: once `ends_at` is stored."""

    config: dict[str, Any]
    topic: str
    url: str
    ends_at: int
    dies: Literal["before", "after"] | None = None


class _Struck(Database):
    """A store during whose second transaction of a batch the process is killed."""

    def __init__(self, url: str, dies: str | None) -> None:
        super().__init__(url)
        self.batches = 0
        self._dies = dies

    @contextmanager
    def begin(self) -> Iterator[Any]:
        with super().begin() as connection:
            yield connection
            self._strike("before")
        self._strike("after")

    def _strike(self, point: str) -> None:
        if self.batches == 2 and self._dies == point:
            os.kill(os.getpid(), signal.SIGKILL)


def main(arguments: Arguments) -> None:
    database = _Struck(arguments.url, arguments.dies)
    intake = Intake(database, Destinations(arguments.topic, ("orders",)), arguments.config)
    consumer = LinearConsumer(
        arguments.config,
        [arguments.topic],
        strategy=[1],
        transient=StoreError,
        on_exhausted="repeat",
        on_permanent="stop",
        inbox=intake,
    )

    def store(batch: list[Message], transaction: Connection) -> None:
        database.batches += 1
        intake.store(batch, transaction)
        if (batch[-1].offset() or 0) >= arguments.ends_at:
            consumer.stop()

    with consumer:
        consumer.run_batches(store, max_messages=BATCH)


if __name__ == "__main__":
    main(Arguments(**json.loads(sys.argv[1])))
