"""The process that calls the handler: it loads the program, and answers what came of each call."""

import os
import signal
import sys
from asyncio import Runner
from collections.abc import Callable
from contextlib import suppress
from contextvars import copy_context
from dataclasses import dataclass
from importlib import import_module
from inspect import iscoroutine
from multiprocessing.connection import Connection
from operator import attrgetter
from typing import Any

from linear_retry.consumer.linear_consumer import LinearConsumer
from linear_retry.errors import ConfigurationError, UsageError
from linear_retry.kafka.consumer.messages import message_id, written
from linear_retry.records.record import Record
from linear_retry.records.text import ErrorText, brief, describe
from linear_retry.retry.callables import check_result
from linear_retry.retry.current_attempt import AttemptInfo, answer_by
from linear_retry.retry.decision import Failure, Permanent, RetrySettings, Transient, classify
from linear_retry.retry.failed_attempt import BatchError, release


@dataclass(frozen=True, slots=True)
class Program:
    """Where the handler comes from: `module:function`, as seen from `directory`.

    The function returns a `LinearConsumer`, which is not started, and its handler: of one message,
    or, with `in_batches`, of a list.
    """

    make: str
    directory: str
    in_batches: bool = False


@dataclass(frozen=True, slots=True)
class Ready:
    """The program is loaded; its consumer is of this group."""

    group_id: str


@dataclass(frozen=True, slots=True)
class Refused:
    """The program cannot be used, with the reason."""

    reason: str


@dataclass(frozen=True, slots=True)
class Attempted:
    """What came of one call; None: it succeeded. `is_transient`: it would be attempted again."""

    error: ErrorText | None = None
    is_transient: bool = False


def serve(connection: Connection, program: Program) -> None:
    """Answers each `Record` with an `Attempted`, until the pipe ends. Runs in the new process."""
    # Ctrl-C is for the command, which ends this process, even if the handler hangs.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    os.dup2(sys.stderr.fileno(), sys.stdout.fileno())  # the command's results go to stdout
    sys.path.insert(0, program.directory)
    try:
        consumer, handler = load(program.make)
    except ConfigurationError as error:
        connection.send(Refused(str(error)))
        return
    handler = consumer._rehearsed(handler)
    connection.send(Ready(consumer.group_id))
    with suppress(EOFError), Runner() as runner:
        while True:
            record = connection.recv()
            connection.send(_attempted(consumer, handler, record, runner, program))


def load(make: str) -> tuple[LinearConsumer, Callable[[Any], object]]:
    """Imports and calls `module:function`. Raises `ConfigurationError`, with a remedy."""
    module, _, name = make.partition(":")
    if not (module and name):
        raise ConfigurationError(f"{make!r} is not module:function, such as app:make")
    try:
        made = attrgetter(name)(import_module(module))()
    except Exception as error:  # the program's own
        raise ConfigurationError(f"{make}: {brief(error)}; correct the program, or its name") from (
            error
        )
    match made:
        case (LinearConsumer() as consumer, handler) if callable(handler):
            return consumer, handler
        case _:
            raise ConfigurationError(
                f"{make}: returned {type(made).__name__}, must return a LinearConsumer, which is "
                "not started, and its handler: (consumer, handler)"
            )


def _attempted(
    consumer: LinearConsumer,
    handler: Callable[[Any], object],
    record: Record,
    runner: Runner,
    program: Program,
) -> Attempted:
    settings, message = consumer._retry_settings, written(record)
    first_s = settings.policy.strategy.delay_s(1)
    answer_by(lambda: AttemptInfo(0, None, first_s, message_id(message)))
    try:
        result = handler([message] if program.in_batches else message)
        if iscoroutine(result):
            runner.run(result, context=copy_context())  # its own was copied before `answer_by`
        else:
            check_result(result)
    except BatchError as of_batch:
        return _failed(of_batch.cause or of_batch, settings, record.topic)
    except BaseException as error:  # noqa: BLE001  (what it raises is the answer)
        return _failed(error, settings, record.topic)
    return Attempted()


def _failed(error: BaseException, settings: RetrySettings, topic: str) -> Attempted:
    failure: Failure = Permanent()
    try:
        if isinstance(error, Exception):
            failure = classify(error, settings.is_transient, settings.rules, topic)
    except UsageError as wrong:
        error = wrong
    text = describe(error)
    release(error)
    return Attempted(text, isinstance(failure, Transient))
