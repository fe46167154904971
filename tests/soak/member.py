"""One life of a member of the soak, in a process of its own: run as a script, with a `Role`."""

import json
import os
import sys
from collections.abc import Callable
from dataclasses import asdict, dataclass
from functools import partial
from pathlib import Path
from typing import Any

from linear_retry import ByKey, DeadLetters, LinearConsumer, RetryTopics, Strategy
from linear_retry.kafka import Message
from linear_retry.retry.clock import SystemClock
from linear_retry.scope import AnyScope
from linear_retry.testing import EventLog
from tests.scenarios.handlers import OutageError, PoisonError
from tests.scenarios.testimony import Written
from tests.soak.retained import entries

POISON = b"poison"
CLOSED = frozenset({b"7"})
"""The keys whose messages fail as long as there is a file `closed`: 1 of 100."""
_BY_KEY: dict[str, Any] = {
    # So little that what waits behind a closed key is dropped within a minute.
    "scope": ByKey(most_bytes=2_000),
    "concurrency": 4,
    "on_exhausted": "repeat",
}


@dataclass(frozen=True, slots=True)
class Role:
    """What the process is to do. While there is a file `outage`, the dependency is down.

    Without a `topic` it reads the retry topics, whose names begin with `prefix`. With `closed`,
    another file, its scope is the key.
    """

    member: str
    testimony: str
    retained: str
    outage: str
    closed: str
    config: dict[str, Any]
    topic: str
    prefix: str
    letters: str
    strategy: list[float]
    scope: AnyScope
    look_every_s: float

    def to_json(self) -> str:
        return json.dumps(asdict(self))


def retry_topics(prefix: str) -> RetryTopics:
    """Shorter than some outages, and longer than others."""
    return RetryTopics(prefix, strategy=["1s", "2s"], limit=None)


class Looks:
    """Notes now and then what the consumer retains; called by its own thread, between two messages,
    so that nothing changes meanwhile.
    """

    def __init__(self, role: Role, log: EventLog) -> None:
        self._file = os.open(role.retained, os.O_WRONLY | os.O_CREAT | os.O_APPEND)
        self._member, self._every_s, self._log = role.member, role.look_every_s, log
        self._is_by_key = bool(role.closed)
        self._next_s = 0.0

    def look(self, consumer: LinearConsumer) -> None:
        now_s, parts = self._log.now_s(), consumer._session.parts
        if now_s < self._next_s or parts is None:
            return
        self._next_s = now_s + self._every_s
        owned, circuits = len(parts.assignment.partitions), len(list(parts.circuits))
        noted = {"at_s": now_s, "entries": entries(consumer), "owned": owned}
        os.write(self._file, json.dumps(noted).encode() + b"\n")
        # A circuit for each scope that is owned: one may have gone, and wait for `retry_at`.
        most = 2 * max(owned, 1) + 1 + _BY_KEY["scope"].most_held * self._is_by_key
        self._log.state_size(self._member, owned + circuits, most)


def handler(role: Role, look: Callable[[], object], log: EventLog) -> Callable[[Message], None]:
    """Refuses poison for ever, everything during an outage, and closed keys until the end."""
    outage, closed = Path(role.outage), Path(role.closed)

    def handle(message: Message) -> None:
        if message.value() == POISON:
            raise PoisonError("poison")
        if outage.exists():
            raise OutageError("the dependency is down")
        if role.closed and message.key() in CLOSED and closed.exists():
            raise OutageError("closed")

    watched = log.handler(role.member, handle)

    def handle_and_look(message: Message) -> None:
        try:
            watched(message)
        finally:
            look()

    return handle_and_look


def main(role: Role) -> None:
    # The machine's clock since boot: the same for all processes, so their logs can be merged.
    log = EventLog(SystemClock().now_s, Written(Path(role.testimony)))
    looks, retries = Looks(role, log), retry_topics(role.prefix)
    in_line = {"scope": role.scope, "on_exhausted": retries if role.topic else "dead-letter"}
    with LinearConsumer(
        role.config | {"on_commit": log.on_commit(role.member)},
        [role.topic] if role.topic else retries,
        strategy=Strategy(role.strategy),
        transient=OutageError,
        dead_letters=DeadLetters(role.letters, limit=None),
        # Its own thread calls the listeners too, where others call the handler.
        listeners=[log.listener(role.member), lambda _: looks.look(consumer)],
        **(_BY_KEY if role.closed else in_line),
    ) as consumer:
        look: Callable[[], object] = bool if role.closed else partial(looks.look, consumer)
        consumer.run(handler(role, look, log))


if __name__ == "__main__":
    main(Role(**json.loads(sys.argv[1])))
