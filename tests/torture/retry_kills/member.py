"""One life of a member of either line: run as a script, with a `Role` in JSON."""

import faulthandler
import json
import signal
import sys
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from linear_retry import DeadLetters, LinearConsumer, RetryTopics
from linear_retry.kafka import Message
from linear_retry.retry.clock import SystemClock
from linear_retry.testing import EventLog
from tests.scenarios.handlers import OutageError
from tests.scenarios.testimony import Testimony
from tests.torture.retry_kills.handler import handle
from tests.torture.struck.moments import Blow, Moments, stores_watched, struck_dependencies


@dataclass(frozen=True, slots=True)
class Role:
    """What the process is to do: read the source, or where there is none, the retry topics."""

    testimony: str
    config: dict[str, Any]
    source: str | None
    prefix: str
    delays: list[str]
    letters: dict[str, Any]
    blow: dict[str, Any]

    def to_json(self) -> str:
        return json.dumps(asdict(self))


def main(role: Role) -> None:
    faulthandler.register(signal.SIGUSR1)  # where does it stand?
    witness = EventLog(SystemClock().now_s, Testimony(Path(role.testimony)))
    moments = Moments(Blow(**role.blow), lambda offsets: witness.committed(offsets, "first"))
    retries = RetryTopics(role.prefix, strategy=role.delays, limit=None)
    with (
        stores_watched(moments),
        LinearConsumer(
            role.config,
            retries if role.source is None else [role.source],
            strategy=[],
            transient=OutageError,
            dead_letters=DeadLetters(**role.letters),
            on_exhausted="dead-letter" if role.source is None else retries,
            listeners=[witness.listener("first"), moments.on_event],
            _dependencies=struck_dependencies(moments),
        ) as consumer,
    ):

        def act(message: Message) -> None:
            moments.come(f"in {moments.handling(message)}")
            handle(message)

        consumer.run(moments.watching(witness.handler("first", act)))


if __name__ == "__main__":
    main(Role(**json.loads(sys.argv[1])))
