"""Writes one log line for each event, with its fields as attributes for programs."""

import dataclasses
import logging
import sys
import traceback
from collections.abc import Callable, Sequence
from contextlib import suppress
from datetime import datetime
from functools import partial
from typing import Any, Literal

from linear_retry import events as e
from linear_retry.log.event_text import text_of
from linear_retry.records.text import guarded, one_line
from linear_retry.scope import Partition, Scope

logger = logging.getLogger("linear_retry")
librdkafka_logger = logging.getLogger("linear_retry.librdkafka")

FIELD_PREFIX = "linear_retry_"
"""The prefix of the structured fields, with which no `logging.LogRecord` attribute begins."""


def log(event: e.Event) -> None:
    """The default listener: one line for each event, to the logger `linear_retry`.

    Keys and payloads are never logged. A wait is logged before it begins.
    """
    level = level_of(event)
    if not logger.isEnabledFor(level):
        return
    fields = {one.name: getattr(event, one.name) for one in dataclasses.fields(event)}
    _write(level, text_of(event), type(event).__name__, **fields)


def log_start(group: str, member: str, process: str, **fields: Any) -> None:
    """Logs that the consumer joins its group: this line connects the member with its `process`."""
    text = f"started: member {member} of group {group} on {process}"
    _write(logging.INFO, text, "Started", group=group, member=member, **fields)


def log_joining(group: str, member: str, waited_s: float) -> None:
    """Logs that the consumer is not in its group: it waits for brokers, or for other members."""
    text = f"joining the group: member {member} has waited for group {group} for {waited_s:.0f} s"
    _write(logging.INFO, text, "Joining", group=group, member=member, waited_s=waited_s)


def log_no_commit(
    partition: Partition, group: str, offset: int, end: int | None, *, is_end: bool
) -> None:
    """Logs where a group begins for want of a commit; a warning if something lies before.

    `end` is the offset after the last one; None: not known.
    """
    topic, number = partition
    edge = "the end" if is_end else "the beginning"
    of_all = "" if end is None else f" of {end}"
    _write(
        logging.WARNING if offset else logging.INFO,
        f"{topic}[{number}]: group {group} has no committed offset, and begins at {edge}, offset "
        f"{offset}{of_all}: it is new here, or had no member for longer than "
        "offsets.retention.minutes, and what it had committed is forgotten",
        "NoCommit",
        topic=topic,
        partition=number,
        group=group,
        offset=offset,
        end=end,
    )


def log_retry_topics(group: str, topics: Sequence[str], *, reads: bool) -> None:
    """Logs at the start where the order ends."""
    names = ", ".join(topics)
    text = f"retry line of group {group}: reads {names}, each message after its topic's delay"
    if not reads:
        text = (
            f"group {group} keeps the order up to its retry topics ({names}): what follows a "
            "message that is sent there is handled before it"
        )
    _write(logging.INFO, text, "RetryTopicsUsed", group=group, topics=list(topics))


def log_scheduler(topic: str, group: str, store: str, allow: Sequence[str]) -> None:
    """Logs that the scheduler begins to read, where to, and where it may send."""
    text = f"scheduler: stores {topic} in {store}, as group {group}; sends to {', '.join(allow)}"
    names = [*allow]
    _write(
        logging.INFO, text, "SchedulerStarted", topic=topic, group=group, store=store, allow=names
    )


def log_scheduler_on_spark(topic: str, checkpoint: str, allow: Sequence[str]) -> None:
    """Logs that the scheduler on Spark has begun, and where it may send."""
    text = f"scheduler: holds {topic} in {checkpoint}; sends to {', '.join(allow)}"
    names = [*allow]
    _write(logging.INFO, text, "SchedulerStarted", topic=topic, checkpoint=checkpoint, allow=names)


def log_query_failed(topic: str, problem: str, wait_s: float) -> None:
    """Logs that a streaming query has failed, and when it is started again."""
    text = f"scheduler: {topic}: {problem}; starts again in {wait_s:.3f} s"
    _write(logging.WARNING, text, "QueryFailed", topic=topic, problem=problem, wait_s=wait_s)


def log_not_sent(topic: str, letters: int, undelivered: int, problem: str) -> None:
    """Logs how many messages a micro-batch has not sent, and the first of their problems."""
    text = (
        f"scheduler: {topic}: {letters} dead-lettered, {undelivered} to be sent again; such as "
        f"{problem}"
    )
    _write(
        logging.WARNING,
        text,
        "NotSent",
        topic=topic,
        letters=letters,
        undelivered=undelivered,
        problem=problem,
    )


def log_listening(what: str, host: str, port: int, *, is_secure: bool) -> None:
    """Logs where the API over the store, or the console, is."""
    address = f"{'https' if is_secure else 'http'}://{host}:{port}"
    _write(logging.INFO, f"the {what} is at {address}", "Listening", address=address)


def log_refused(what: str, count: int) -> None:
    """Logs a sign-in or a change that the API over the store has refused, as often as that is."""
    often = f" ({count} times)" if count > 1 else ""
    _write(logging.WARNING, f"the API has refused {what}{often}", "Refused", what=what, count=count)


def log_unaudited(entry: str, problem: str, count: int) -> None:
    """Logs what the console could not write to its audit, and did all the same."""
    often = f" ({count} times)" if count > 1 else ""
    text = f"not in the console's audit, which cannot be written ({problem}): {entry}{often}"
    _write(logging.ERROR, text, "Unaudited", entry=entry, problem=problem, count=count)


def log_thread_failed(thread: str) -> None:
    """Logs, with its traceback, the error that a thread of ours begins again after."""
    text = f"{thread}: an unexpected error; it begins again"
    _write(logging.ERROR, text, "ThreadFailed", thread=thread, with_traceback=True)


def log_inbox_waits(group: str, problem: str) -> None:
    """Logs why a consumer with an inbox cannot continue now; it tries again."""
    _write(logging.WARNING, f"inbox of group {group}: {problem}", "InboxWaits", group=group)


def log_topic_problem(topic: str, problem: str) -> None:
    """Logs at the start what is wrong with a topic, and does not prevent the start."""
    _write(logging.WARNING, problem, "TopicProblem", topic=topic)


def log_listener_failure(listener: object) -> None:
    """Logs that a listener raised, from inside the `except`. The consumer is not affected."""
    name = guarded(lambda: repr(listener), otherwise=f"<a {type(listener).__name__}>")
    text = f"the listener {name} raised; the consumer continues"
    _write(logging.ERROR, text, "ListenerFailed", with_traceback=True, listener=name)


def log_listener_undone(listener: object, undone: str) -> None:
    """Logs that a listener returned work that is not waited for; once for each listener."""
    name = guarded(lambda: repr(listener), otherwise=f"<a {type(listener).__name__}>")
    text = f"the listener {name} returned {undone}; the consumer continues, and says this once"
    _write(logging.ERROR, text, "ListenerFailed", listener=name)


def log_handler_failed(place: str, error: str, stack: str) -> None:
    """Logs, with its traceback as text, an error of the handler's that waiting does not cure."""
    text = f"the handler failed: {place}: {error}; equal errors are logged without a traceback"
    _write(logging.ERROR, text, "HandlerFailed", stack=stack, place=place, error=error)


def log_journal_losses(topic: str, member: str, dropped: int, since: datetime, error: str) -> None:
    """Logs that events are missing from the journal; called at most once a minute."""
    because = f" ({error})" if error else ""
    text = (
        f"journal: {dropped} events of member {member} for {topic} dropped since "
        f"{since.isoformat(timespec='seconds')}{because}; the consumer continues"
    )
    _write(
        logging.WARNING,
        text,
        "JournalLosses",
        topic=topic,
        member=member,
        dropped=dropped,
        since=since,
        error=error,
    )


def log_journal_topic_missing(topic: str) -> None:
    """Logs at the start that the journal's topic is missing: events are dropped until it exists."""
    text = f"journal: no such topic: {topic}; create it. The consumer continues"
    _write(logging.WARNING, text, "JournalTopicMissing", topic=topic)


def log_control_silent(topic: str, error: str) -> None:
    """Logs that no command can be read; called at most once a minute."""
    text = f"control: cannot read commands from {topic} ({error}); the consumer continues"
    _write(logging.WARNING, text, "ControlSilent", topic=topic, error=error)


def log_control_garbled(place: str, reason: str, count: int) -> None:
    """Logs a record that is neither command nor answer; called at most once a minute."""
    text = f"control: {place} is not a valid command ({reason}); ignored, {count} so far"
    _write(logging.WARNING, text, "ControlGarbled", place=place, reason=reason, count=count)


def log_sender(text: str, event: Any, *, level: Literal["INFO", "WARNING", "ERROR"]) -> None:
    """Logs what the sender of stored messages does; `event` is a dataclass, and has the fields."""
    fields = {one.name: getattr(event, one.name) for one in dataclasses.fields(event)}
    _write(getattr(logging, level), text, type(event).__name__, **fields)


def log_messages_stored(store: str, count: int, error: str) -> None:
    """Logs that an outbox stores what it cannot send; once until it sends directly again."""
    text = f"outbox: {error}; {count} messages are stored in {store}, and sent from there"
    _write(logging.WARNING, text, "MessagesStored", store=store, count=count, error=error)


def log_direct_again(store: str) -> None:
    """Logs that the store has no message of an outbox any more."""
    text = f"outbox: {store} has sent all of its messages; messages are sent directly again"
    _write(logging.INFO, text, "DirectAgain", store=store)


def log_outbox_trouble(store: str, error: str) -> None:
    """Logs that an outbox's thread has met an error; once, until the store works again."""
    text = f"outbox: {error}; tried again"
    _write(logging.WARNING, text, "OutboxTrouble", store=store, error=error)


def log_outbox_sender_ended(store: str, error: str, *, will_begin_again: bool) -> None:
    """Logs that the sender of an outbox's process has ended; once, as long as it is the same."""
    then = "it begins again" if will_begin_again else "produce, add and flush raise this error"
    text = f"outbox: sending from {store} has failed, and {then}: {error}"
    _write(logging.ERROR, text, "OutboxSenderEnded", store=store, error=error)


def log_messages_lost(store: str, count: int, error: str) -> None:
    """Logs that messages of an outbox could be neither sent nor stored."""
    noun = "message" if count == 1 else "messages"
    text = f"outbox: {count} {noun} could be neither sent nor stored in {store} ({error})"
    _write(logging.ERROR, text, "MessagesLost", store=store, count=count, error=error)


def log_records_dropped(count: int) -> None:
    """Logs that log records of the retry line's process are missing here."""
    what = (
        "log record of the retry line was" if count == 1 else "log records of the retry line were"
    )
    text = f"run_together: {count} {what} dropped: it logs faster than this process writes"
    _write(logging.WARNING, text, "LogRecordsDropped", count=count)


# What librdkafka warns of at the first producer of a new cluster; it asks again, with success.
_PASSING = "Coordinator load in progress: retrying"
_LASTING_TIMES = 10


def log_librdkafka(level: int, facility: str, client: str, text: str, count: int) -> None:
    """Passes a line of librdkafka on to the logger `linear_retry.librdkafka`."""
    often = f" ({count} times)" if count > 1 else ""
    passes = text.endswith(_PASSING) and count < _LASTING_TIMES
    _write(
        logging.DEBUG if passes else level,
        f"{facility} [{client}] {text}{often}",
        "Librdkafka",
        to=librdkafka_logger,
        facility=facility,
        client=client,
        count=count,
    )


def _write(
    level: int,
    text: str,
    event: str,
    /,
    *,
    to: logging.Logger = logger,
    with_traceback: bool = False,
    stack: str | None = None,
    **fields: object,
) -> None:
    """Writes one line, with `event` and `fields` as attributes of the record.

    `stack` is the traceback of an exception that is not kept.
    """
    if not to.isEnabledFor(level):
        return
    extra = {f"{FIELD_PREFIX}{name}": _plain(value) for name, value in fields.items()}
    extra[f"{FIELD_PREFIX}event"] = event
    line = one_line(text)
    if stack is None:
        write_guarded(to.log, level, line, extra=extra, exc_info=with_traceback)
    else:
        write_guarded(partial(_write_with_stack, to, stack), level, line, extra)


def _write_with_stack(
    to: logging.Logger, stack: str, level: int, line: str, extra: dict[str, object]
) -> None:
    record = to.makeRecord(to.name, level, __file__, 0, line, (), None, extra=extra)
    record.exc_text = stack.rstrip()
    to.handle(record)


def write_guarded(write: Callable[..., object], *line: object, **options: object) -> None:
    """Calls `write`, the `log` method of one of the program's loggers, and contains what it raises.

    A failing log handler must not end one of our threads: one that cannot reach its server raises
    just when there is an outage. As with `logging`'s own handlers, the traceback goes to stderr.
    """
    try:
        write(*line, **options)
    except Exception:  # noqa: BLE001  (handlers and filters are the program's)
        if logging.raiseExceptions and sys.stderr is not None:
            with suppress(Exception):  # stderr may be the program's own stream, or log again
                traceback.print_exc(file=sys.stderr)


def _plain(value: object) -> object:
    """The value in a form that any formatter can write as JSON."""
    match value:
        case Scope():
            return str(value)
        case datetime():
            return value.isoformat()
        case tuple():
            return [f"{one[0]}[{one[1]}]" if isinstance(one, tuple) else one for one in value]
        case _:
            return value


_ERRORS = (
    *(e.DeadLettered, e.DeadLetterFailed, e.LimitReached, e.KeyBlocked, e.Skipped),
    *(e.PartitionUnreadable, e.DataLost, e.HandlerTooSlow, e.StrategyRefused),
)
_INFOS = (
    e.Assigned,
    e.Revoked,
    e.Stopped,
    e.CircuitClosed,
    e.GroupHoldEnded,
    e.PassedOver,
    e.LeakDropped,
    e.ReturnedToSource,
    e.WaitingBehind,
)


def level_of(event: e.Event) -> int:
    """The level at which `logging` gets the event."""
    if isinstance(event, _ERRORS):
        return logging.ERROR
    return logging.INFO if isinstance(event, _INFOS) else logging.WARNING
