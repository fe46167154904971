"""Both lines of a group in one call: run as a script, with a `Program` in JSON."""

import asyncio
import json
import logging
import os
import signal
import sys
import threading
from dataclasses import asdict, dataclass
from functools import partial
from typing import Any, Literal

from linear_retry import (
    LinearConsumer,
    RetryTopics,
    run_together,
    run_together_async,
)
from linear_retry.kafka import Message

How = Literal["process", "threads", "async"]


@dataclass(frozen=True, slots=True)
class Program:
    """What is run, and on which topics."""

    config: dict[str, Any]
    source: str
    prefix: str
    dead_letters: str
    how: How = "process"

    def to_json(self) -> str:
        return json.dumps(asdict(self))


def handle(message: Message) -> None:
    """Fails once on the live line; on the retry line, what the value says happens."""
    line = _line(message)
    value = (message.value() or b"").decode()
    print(line, value, os.getpid(), flush=True)
    if line == "live" and value != "plain":
        raise OSError("down")
    if value == "killed":
        os.kill(os.getpid(), signal.SIGKILL)
    if value == "refused":
        raise ValueError("refused")

    if value == "hangs":
        threading.Event().wait()


async def handle_async(message: Message) -> None:
    """The same, but one that hangs can be cancelled."""
    if message.value() != b"hangs" or _line(message) == "live":
        handle(message)
        return
    print("retry", "hangs", os.getpid(), flush=True)
    try:
        await asyncio.Event().wait()
    finally:
        print("retry", "cancelled", os.getpid(), flush=True)


def _line(message: Message) -> str:
    return "retry" if ".retry." in (message.topic() or "") else "live"


def main(program: Program) -> None:
    logging.basicConfig(level=logging.INFO, format="%(process)d %(message)s")
    live, retry = _live_line(program), partial(_retry_line, program)
    match program.how:
        case "async":
            asyncio.run(run_together_async(live, retry, handle_async))
        case how:
            run_together(live, retry, handle, threads=how == "threads")


def _live_line(program: Program) -> LinearConsumer:
    return LinearConsumer(
        program.config,
        [program.source],
        strategy=[],
        transient=OSError,
        dead_letters=program.dead_letters,
        on_exhausted=_retries(program),
    )


def _retry_line(program: Program) -> LinearConsumer:
    return LinearConsumer(
        program.config,
        _retries(program),
        strategy=[],
        transient=OSError,
        dead_letters=program.dead_letters,
        on_permanent="stop",
    )


def _retries(program: Program) -> RetryTopics:
    return RetryTopics(program.prefix, strategy=["1s", "2s"])


if __name__ == "__main__":
    main(Program(**json.loads(sys.argv[1])))
