"""One life of a member with transactional letters, which ends or stops in the midst of one."""

from __future__ import annotations

import json
import os
import signal
import sys
import threading
from collections.abc import Callable
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from linear_retry import DeadLetters, Event, LinearConsumer, Strategy
from linear_retry.consumer.assembly import Outside
from linear_retry.consumer.clock import SystemClock
from linear_retry.kafka import Producer
from tests.guarantees import Witness
from tests.scenarios.handlers import OutageError, Scripted
from tests.scenarios.testimony import Testimony

POINTS = (
    "after init",
    "after begin",
    "after produce",
    "after report",
    "before send_offsets",
    "after send_offsets",
    "before commit",
    "during commit",
    "after commit",
    "at the event",
)


@dataclass(frozen=True, slots=True)
class Role:
    """What the process is to do, and at which point it is struck by which signal.

    It makes the file `struck` right before. "during commit" is so many seconds into the call.
    """

    member: str
    testimony: str
    struck: str
    config: dict[str, Any]
    topic: str
    letters: str
    letters_config: dict[str, Any]
    refused: str
    point: str
    signal: int = signal.SIGKILL
    into_commit_s: float = 0.0

    def to_json(self) -> str:
        return json.dumps(asdict(self))


class StruckProducer:
    """The real producer, and the strike at its point."""

    def __init__(
        self, config: dict[str, Any], strike: Callable[[str], None], into_s: float
    ) -> None:
        self._producer = Producer(config)
        self._strike = strike
        self._into_s = into_s

    def init_transactions(self, timeout_s: float) -> None:
        self._producer.init_transactions(timeout_s)
        self._strike("after init")

    def begin_transaction(self) -> None:
        self._producer.begin_transaction()
        self._strike("after begin")

    def produce(self, *arguments: Any, on_delivery: Any, **named: Any) -> None:
        def report(*told: Any) -> None:
            on_delivery(*told)
            self._strike("after report")

        self._producer.produce(*arguments, **named, on_delivery=report)  # type: ignore[misc]  # as the caller gives them
        self._strike("after produce")

    def poll(self, timeout_s: float) -> int:
        return self._producer.poll(timeout_s)

    def send_offsets_to_transaction(self, *arguments: Any) -> None:
        self._strike("before send_offsets")
        self._producer.send_offsets_to_transaction(*arguments)
        self._strike("after send_offsets")

    def commit_transaction(self, timeout_s: float) -> None:
        self._strike("before commit")
        timer = threading.Timer(self._into_s, self._strike, ["during commit"])
        timer.start()
        self._producer.commit_transaction(timeout_s)
        timer.join()  # the strike may come after the answer: that is one moment of many
        self._strike("after commit")

    def abort_transaction(self, timeout_s: float) -> None:
        self._producer.abort_transaction(timeout_s)


def main(role: Role) -> None:
    def strike(point: str) -> None:
        if point == role.point and not Path(role.struck).exists():
            Path(role.struck).touch()
            os.kill(os.getpid(), role.signal)

    def hear(event: Event) -> None:
        if type(event).__name__ == "DeadLettered":
            strike("at the event")

    def producer(config: dict[str, Any]) -> StruckProducer:
        return StruckProducer(config, strike, role.into_commit_s)

    # The machine's clock since boot: the same for all processes, so their logs can be merged.
    witness = Witness(SystemClock().now_s, Testimony(Path(role.testimony)))
    with LinearConsumer(
        role.config,
        [role.topic],
        strategy=Strategy([]),
        transient=OutageError,
        dead_letters=DeadLetters(role.letters, role.letters_config, transactional=True),
        listeners=[witness.listener(role.member), hear],
        _outside=Outside(producer=producer),
    ) as consumer:
        consumer.run(witness.handler(role.member, Scripted({role.refused: ["poison"]})))


if __name__ == "__main__":
    main(Role(**json.loads(sys.argv[1])))
