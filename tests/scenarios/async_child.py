"""One life of a member that awaits its handler: run as a script, with a `Role` in JSON.

The script of the role knows two steps: `hang PATH` makes the file and waits until it is cancelled,
`gate PATH` makes it and waits until it is gone. With the option `own_handler` the program has a
handler of SIGTERM of its own on the loop, which stops the consumer and makes the file of that name.
"""

import asyncio
import json
import signal
import sys
from collections.abc import Callable
from pathlib import Path

from linear_retry import LinearConsumer, Strategy
from linear_retry.kafka import Message
from linear_retry.retry.clock import SystemClock
from linear_retry.testing import EventLog
from tests.scenarios.child import Role
from tests.scenarios.handlers import OutageError
from tests.scenarios.testimony import Testimony


async def main(role: Role, own_handler: str | None) -> None:
    witness = EventLog(SystemClock().now_s, Testimony(Path(role.testimony)))
    consumer = LinearConsumer(
        role.config,
        role.topics,
        strategy=Strategy(role.strategy),
        transient=OutageError,
        listeners=[witness.listener(role.member)],
        **role.options,
    )
    if own_handler is not None:
        loop, told = asyncio.get_running_loop(), Path(own_handler)
        loop.add_signal_handler(signal.SIGTERM, _both(consumer.stop, told.touch))

    async def handle(message: Message) -> None:
        steps = role.script.get(f"{message.partition()}@{message.offset()}", ())
        for step in steps:
            await _act(*step.split())

    with consumer:
        await consumer.run_async(witness.async_handler(role.member, handle))
    print("returned", file=sys.stderr)


def _both(stop: Callable[[], None], tell: Callable[[], None]) -> Callable[[], None]:
    def stop_and_tell() -> None:
        stop()
        tell()

    return stop_and_tell


async def _act(what: str, path: str) -> None:
    Path(path).touch()
    while what == "hang" or Path(path).exists():
        await asyncio.sleep(0.005)


if __name__ == "__main__":
    _role = Role(**json.loads(sys.argv[1]))
    asyncio.run(main(_role, _role.options.pop("own_handler", None)))
