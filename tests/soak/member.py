"""One life of a member of the soak, in a process of its own: run as a script, with a `Role`."""

import json
import os
import sys
from collections.abc import Callable
from dataclasses import asdict, dataclass
from functools import partial
from pathlib import Path
from typing import Any

from linear_retry import DeadLetters, LinearConsumer, RetryTopics, Strategy
from linear_retry.kafka import Message
from linear_retry.retry.clock import SystemClock
from linear_retry.scope import ScopeKind
from linear_retry.testing import EventLog
from tests.scenarios.handlers import OutageError, PoisonError
from tests.scenarios.testimony import Written
from tests.soak.retained import entries

POISON = b"poison"


@dataclass(frozen=True, slots=True)
class Role:
    """What the process is to do. While there is a file `outage`, the dependency is down.

    Without a `topic` it reads the retry topics, whose names begin with `prefix`.
    """

    member: str
    testimony: str
    retained: str
    outage: str
    config: dict[str, Any]
    topic: str
    prefix: str
    letters: str
    strategy: list[float]
    scope: ScopeKind
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
        self._log.state_size(self._member, owned + circuits, 2 * max(owned, 1) + 1)


def handler(
    outage: Path, look: Callable[[], None], log: EventLog, member: str
) -> Callable[[Message], None]:
    """Refuses poison for ever, and everything during an outage."""

    def handle(message: Message) -> None:
        if message.value() == POISON:
            raise PoisonError("poison")
        if outage.exists():
            raise OutageError("the dependency is down")

    watched = log.handler(member, handle)

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
    with LinearConsumer(
        role.config | {"on_commit": log.on_commit(role.member)},
        [role.topic] if role.topic else retries,
        strategy=Strategy(role.strategy),
        transient=OutageError,
        on_exhausted=retries if role.topic else "dead-letter",
        dead_letters=DeadLetters(role.letters, limit=None),
        scope=role.scope,
        listeners=[log.listener(role.member)],
    ) as consumer:
        look = partial(looks.look, consumer)
        consumer.run(handler(Path(role.outage), look, log, role.member))


if __name__ == "__main__":
    main(Role(**json.loads(sys.argv[1])))
