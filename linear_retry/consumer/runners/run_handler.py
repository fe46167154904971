"""Calls a plain function with each message, in order."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import closing
from typing import TypeAlias

from linear_retry.consumer.loop import Loop
from linear_retry.consumer.runners.batch import Batch
from linear_retry.consumer.runners.results import Results, UndoneError
from linear_retry.consumer.runners.stop import StopFlag
from linear_retry.errors import UsageError
from linear_retry.kafka import Message
from linear_retry.retry.clock import NowS

Handler: TypeAlias = Callable[[Message], object]


def run(loop: Loop, handler: Handler, stop: StopFlag, now_s: NowS) -> None:
    """Call `handler` with each message until a stop is asked for.

    Raises what the loop raises, and `UsageError` where the handler returns what nobody would do,
    and in the child of a fork.
    """
    results = Results()
    while not stop.asked:
        with closing(loop.turn()) as turn:
            for batch in turn:
                try:
                    attempt_all(batch, handler, stop, now_s, results)
                except UndoneError as undone:
                    where = f"{batch.place}: handler={handler!r}"
                    raise UsageError(f"{where} returned {undone}") from None
                stop.check_process()


def attempt_all(
    batch: Batch, handler: Handler, stop: StopFlag, now_s: NowS, results: Results
) -> None:
    """Message by message, until one fails, the time for a poll has come, or all are handled.

    A success has no bookkeeping of its own: this is the path where every 0.1 µs counts. `finally`:
    also for what is no `Exception`, where the message in hand is not done, and not counted.
    """
    in_hand, coming, harmless = True, iter(batch.messages), results.harmless
    try:
        for message in coming:
            result = handler(message)
            if result is not None and type(result) not in harmless:
                results.check(result)
            if now_s() >= stop.poll_by_s:
                break
        in_hand = False
    except Exception as error:  # noqa: BLE001  (the handler's call: whatever a user may raise)
        batch.note_failed(coming, error)
    finally:
        batch.note_taken(coming, in_hand=in_hand)
