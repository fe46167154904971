"""How does a plain function get its messages?"""

from __future__ import annotations

import inspect
from collections.abc import Callable
from contextlib import closing
from typing import TypeAlias

from linear_retry.consumer.clock import NowS
from linear_retry.consumer.loop import Loop
from linear_retry.consumer.stop import StopFlag
from linear_retry.consumer.work import Work
from linear_retry.errors import UsageError
from linear_retry.kafka import Message

Handler: TypeAlias = Callable[[Message], object]


class _NeverAwaitedError(BaseException):
    """No `Exception`: the handler has not failed, it has not run, and nothing is decided of it."""


def run(loop: Loop, handler: Handler, stop: StopFlag, now_s: NowS) -> None:
    """Call `handler` with each message until a stop is asked for.

    Raises what the loop raises, and `UsageError` where the handler returns an awaitable.
    """
    call = _awaiting_nothing(handler)
    try:
        while not stop.asked:
            with closing(loop.turn()) as turn:
                for work in turn:
                    attempt_all(work, call, stop, now_s)
                    call = handler
    except _NeverAwaitedError:
        raise UsageError(
            f"handler={handler!r} returned an awaitable, which nobody awaits: the message would "
            "count as done without having been handled; give a plain function, or use run_async"
        ) from None


def attempt_all(work: Work, handler: Handler, stop: StopFlag, now_s: NowS) -> None:
    """Message by message, until one fails, the time for a poll has come, or all are handled.

    A success has no bookkeeping of its own: this is the path where every 0.1 µs counts. `finally`:
    also for what is no `Exception`, where the message in hand is not done, and not counted.
    """
    in_hand, coming = True, iter(work.messages)
    try:
        for message in coming:
            handler(message)
            if now_s() >= stop.poll_by_s:
                break
        in_hand = False
    except Exception as error:  # noqa: BLE001  (the handler's call: whatever a user may raise)
        work.note_failed(coming, error)
    finally:
        work.note_taken(coming, in_hand=in_hand)


def _awaiting_nothing(handler: Handler) -> Handler:
    def call(message: Message) -> None:
        if inspect.isawaitable(handler(message)):
            raise _NeverAwaitedError

    return call
