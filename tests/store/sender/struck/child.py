"""A process that sends until it is told to end, or struck."""

import json
import signal
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from threading import Event
from typing import Any

from sqlalchemy import Connection, event

from linear_retry.store.database import Database
from linear_retry.store.sender.sender import Sender
from tests.store.sender.scene import LEASE_S, delays
from tests.torture.struck.moments import Blow, Moments, StruckProducer

_KINDS = {
    "UPDATE linear_retry_lease": "leases",
    "INSERT INTO linear_retry_message": "messages",
    "DELETE FROM linear_retry_message": "deletions",
    "UPDATE linear_retry_lane SET low_due_ms": "low due times",
}


@dataclass(frozen=True, slots=True)
class Role:
    """What the process is to do."""

    url: str
    config: dict[str, Any]
    blow: dict[str, Any]
    testimony: str = ""
    lease_s: float = LEASE_S

    def to_json(self) -> str:
        return json.dumps(asdict(self))


class StruckDatabase(Database):
    """The real one, and the moments before and after its commits."""

    def __init__(self, url: str, moments: Moments) -> None:
        super().__init__(url)
        self._moments = moments

    @contextmanager
    def begin(self) -> Iterator[Connection]:
        kinds: list[str] = []

        def note(_: object, __: object, statement: str, *___: object) -> None:
            kinds.extend(kind for start, kind in _KINDS.items() if statement.startswith(start))

        with self._moments.alone, super().begin() as connection:
            event.listen(connection, "before_cursor_execute", note)
            yield connection
            for kind in dict.fromkeys(kinds):
                self._moments.come(f"before the commit of {kind}")
        for kind in dict.fromkeys(kinds):
            self._moments.come(f"after the commit of {kind}")


def main(role: Role) -> None:
    stop = Event()
    signal.signal(signal.SIGTERM, lambda *_: stop.set())
    moments = Moments(Blow(**role.blow), lambda _: None)
    database = StruckDatabase(role.url, moments)
    Sender(
        database,
        role.config,
        "scheduler",
        delays=delays,
        lease_s=role.lease_s,
        producer=lambda config: StruckProducer(config, moments),
    ).run(stop)


if __name__ == "__main__":
    main(Role(**json.loads(sys.argv[1])))
