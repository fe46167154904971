"""One life of a member, in a process of its own: run as a script, with a `Role` in JSON."""

import json
import sys
from contextlib import nullcontext
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from linear_retry import Journal, LinearConsumer, RetryTopics, Strategy
from linear_retry.consumer.settings.by_key import ByKey
from linear_retry.monitoring.health import serve
from linear_retry.retry.clock import SystemClock
from linear_retry.testing import EventLog
from tests.scenarios.handlers import Each, OutageError, Script, Scripted
from tests.scenarios.testimony import Testimony


@dataclass(frozen=True, slots=True)
class Role:
    """What the process is to do.

    `retries` and `by_key` are the arguments of its `RetryTopics` and `ByKey`, if it has any;
    without `topics` it reads the former.
    """

    member: str
    testimony: str
    config: dict[str, Any]
    topics: list[str]
    strategy: list[float]
    script: Script = field(default_factory=dict)
    options: dict[str, Any] = field(default_factory=dict)
    journals: list[str] = field(default_factory=list)
    health_port: int | None = None
    retries: dict[str, Any] = field(default_factory=dict)
    by_key: dict[str, Any] = field(default_factory=dict)
    batches: bool = False

    def to_json(self) -> str:
        return json.dumps(asdict(self))


def main(role: Role) -> None:
    # The machine's clock since boot: the same for all processes, so their logs can be merged.
    witness = EventLog(SystemClock().now_s, Testimony(Path(role.testimony)))
    retries = RetryTopics(**role.retries) if role.retries else None
    chosen: dict[str, Any] = {} if retries is None or not role.topics else {"on_exhausted": retries}
    if role.by_key:
        chosen["scope"] = ByKey(**role.by_key)
    consumer = LinearConsumer(
        role.config | {"on_commit": witness.on_commit(role.member)},
        role.topics or retries or [],
        strategy=Strategy(role.strategy),
        transient=OutageError,
        listeners=[witness.listener(role.member), *map(Journal, role.journals)],
        **chosen,
        **role.options,
    )
    port = role.health_port
    with consumer, nullcontext() if port is None else serve(consumer, port):
        if role.batches:
            consumer.run_batches(witness.batch_handler(role.member, Each(Scripted(role.script))))
        else:
            consumer.run(witness.handler(role.member, Scripted(role.script)))


if __name__ == "__main__":
    main(Role(**json.loads(sys.argv[1])))
