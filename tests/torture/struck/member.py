"""One life of a member that is struck at a moment of it: run as a script, with a `Role` in JSON."""

import faulthandler
import json
import signal
import sys
import time
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from linear_retry import DeadLetters, Event, LinearConsumer, RetryTopics, Strategy
from linear_retry.kafka import Message
from linear_retry.retry.clock import SystemClock
from linear_retry.testing import EventLog
from tests.scenarios.handlers import OutageError, Script, Scripted
from tests.scenarios.testimony import Testimony
from tests.torture.struck.moments import Blow, Moments, stores_watched, struck_dependencies


@dataclass(frozen=True, slots=True)
class Role:
    """What the process is to do.

    It ends after the place, `partition@offset`, or at the kind of event, `stops_at`. `handler_s` is
    how long each call of the handler takes. What fails too often goes to the one topic `retries`,
    where there is one.
    """

    member: str
    testimony: str
    config: dict[str, Any]
    topic: str
    letters: str
    letters_config: dict[str, Any]
    transactional: bool
    strategy: list[float]
    blow: dict[str, Any]
    script: Script = field(default_factory=dict)
    stops_at: str = ""
    handler_s: float = 0.0
    options: dict[str, Any] = field(default_factory=dict)
    retries: str = ""

    def to_json(self) -> str:
        return json.dumps(asdict(self))


def one_topic(name: str) -> RetryTopics:
    """A retry topic that nobody reads."""
    return RetryTopics.single(name, every="1h", max_duration="1d", limit=None)


def main(role: Role) -> None:
    faulthandler.register(signal.SIGUSR1)  # where does it stand?
    # The machine's clock since boot: the same for all processes, so their logs can be merged.
    witness = EventLog(SystemClock().now_s, Testimony(Path(role.testimony)))
    moments = Moments(Blow(**role.blow), lambda offsets: witness.committed(offsets, role.member))

    def on_event(event: Event) -> None:
        if type(event).__name__ == role.stops_at:
            consumer.stop()
        moments.on_event(event)

    with (
        stores_watched(moments),
        LinearConsumer(
            role.config,
            [role.topic],
            strategy=Strategy(role.strategy),
            transient=OutageError,
            dead_letters=DeadLetters(
                role.letters,
                role.letters_config,
                transactional=role.transactional,
                limit=None,
            ),
            listeners=[witness.listener(role.member), on_event],
            on_exhausted=one_topic(role.retries) if role.retries else "dead-letter",
            _dependencies=struck_dependencies(moments),
            **role.options,
        ) as consumer,
    ):
        scripted = Scripted(role.script)

        def act(message: Message) -> None:
            moments.come(f"in {moments.handling(message)}")
            time.sleep(role.handler_s)
            scripted(message)

        witnessed = witness.handler(role.member, act)

        def handle(message: Message) -> None:
            witnessed(message)
            if f"{message.partition()}@{message.offset()}" == role.stops_at:
                consumer.stop()

        consumer.run(moments.watching(handle))
        moments.leaving = True


if __name__ == "__main__":
    main(Role(**json.loads(sys.argv[1])))
