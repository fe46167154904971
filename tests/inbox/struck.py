"""A consumer with an inbox, in a process of its own, which a signal strikes at a point of its work.

`python -m tests.inbox.struck ARGUMENTS`, with the fields of `Arguments` as JSON.
"""

import json
import os
import signal
import sys
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, Literal, TypeAlias

from linear_retry import DeadLetters, LinearConsumer
from linear_retry.consumer.settings.inbox import InboxPlaces
from linear_retry.inbox import Inbox
from linear_retry.kafka import Message
from linear_retry.scope import Partition
from tests.inbox.effects import Effects, write
from tests.kafka_operations import wait_until

POISON = 3
Point: TypeAlias = Literal[
    "begun", "handled", "committed", "before leaving", "leaving", "left", "passed"
]


@dataclass(frozen=True, slots=True)
class Arguments:
    """`strikes`: the point, for offset 2, or for the letter of 3. None: it ends at `ends_at`.

    `by_key`: each message has a key of its own, and the first one's is held until the strike.
    """

    config: dict[str, Any]
    topic: str
    letters: str
    url: str
    ends_at: int
    strikes: Point | None = None
    signal: int = signal.SIGKILL
    by_key: bool = False


class _Struck:
    """What the consumer asks of the inbox, with a strike before and after each answer."""

    def __init__(self, places: InboxPlaces, strike: "_Strike") -> None:
        self._places = places
        self._strike = strike

    def __getattr__(self, name: str) -> Any:
        return getattr(self._places, name)

    def leave(self, message: Message) -> None:
        self._strike("before leaving", message.offset() == POISON)
        self._places.leave(message)
        self._strike("leaving", message.offset() == POISON)

    def passed(self, next_offsets: Mapping[Partition, int], ended: Message | None = None) -> None:
        is_letter = ended is not None and ended.offset() == POISON
        self._strike("left", is_letter)
        self._places.passed(next_offsets, ended)
        self._strike("passed", is_letter)


class _Strike:
    def __init__(self, arguments: Arguments) -> None:
        self._arguments = arguments

    def __call__(self, point: Point, is_here: bool) -> None:
        if is_here and point == self._arguments.strikes:
            os.kill(os.getpid(), self._arguments.signal)


class _StruckInbox(Inbox):
    def __init__(self, begin: Any, store: str, strike: _Strike) -> None:
        super().__init__(begin, store=store)
        self._strike = strike

    def places(self, *given: Any) -> Any:
        return _Struck(super().places(*given), self._strike)


def main(arguments: Arguments) -> None:
    effects, strike = Effects(arguments.url), _Strike(arguments)
    count = 0

    @contextmanager
    def begin() -> Iterator[Any]:
        nonlocal count
        with effects.engine.begin() as connection:
            strike("begun", count >= POISON)  # the first is the check at the start
            yield connection
        strike("committed", count >= POISON)
        count += 1

    def handler(message: Message, transaction: Any) -> None:
        write(message, transaction)
        if arguments.by_key and arguments.strikes and message.offset() == 0:
            raise OSError("held")
        strike("handled", message.offset() == 2)
        if message.offset() == POISON:
            raise ValueError("poison")

    with LinearConsumer(
        arguments.config,
        [arguments.topic],
        strategy=[3] * 100 if arguments.by_key else [0.05],
        transient=OSError,
        scope="key" if arguments.by_key else "consumer",
        concurrency=3 if arguments.by_key else 1,
        dead_letters=DeadLetters(arguments.letters, transactional=True),
        inbox=_StruckInbox(begin, arguments.url, strike),
    ) as consumer:

        def end() -> None:
            wait_until(
                lambda: effects.places(arguments.topic) == [arguments.ends_at], "all is done"
            )
            consumer.stop()

        threading.Thread(target=end, daemon=True).start()
        consumer.run(handler)


if __name__ == "__main__":
    main(Arguments(**json.loads(sys.argv[1])))
