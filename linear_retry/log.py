"""The log: one line for each event, with its fields beside it for programs."""

from __future__ import annotations

import dataclasses
import logging
import sys
import traceback
from collections.abc import Callable
from contextlib import suppress
from datetime import datetime

from linear_retry import events as e
from linear_retry.records.header_text import guarded, one_line
from linear_retry.records.process import Process
from linear_retry.scope import Partition, Scope

logger = logging.getLogger("linear_retry")
librdkafka_logger = logging.getLogger("linear_retry.librdkafka")

FIELD_PREFIX = "linear_retry_"
"""Of the structured fields: no attribute of a `logging.LogRecord` begins so."""


def log(event: e.Event) -> None:
    """The listener that is on by default: one line for each event, to the logger `linear_retry`.

    Keys and payloads are never in it. A wait is announced before it begins.
    """
    fields = {one.name: getattr(event, one.name) for one in dataclasses.fields(event)}
    _write(level_of(event), text_of(event), type(event).__name__, **fields)


def log_start(group: str, member: str, process: Process) -> None:
    """It joins its group: whoever reads of the member elsewhere finds its process here."""
    text = f"started: member {member} of group {group} on {process}"
    fields = dataclasses.asdict(process)
    _write(logging.INFO, text, "Started", group=group, member=member, **fields)


def log_listener_failure(listener: object) -> None:
    """A listener has raised: called inside the `except`. It never disturbs the consumer."""
    name = guarded(lambda: repr(listener), otherwise=f"<a {type(listener).__name__}>")
    text = f"the listener {name} raised; the consumer goes on"
    _write(logging.ERROR, text, "ListenerFailed", with_traceback=True, listener=name)


def log_journal_losses(topic: str, dropped: int, error: str) -> None:
    """Events are not in the journal. At most once a minute."""
    because = f" ({error})" if error else ""
    text = f"journal: {dropped} events so far are not in {topic}{because}; the consumer goes on"
    _write(logging.WARNING, text, "JournalLosses", topic=topic, dropped=dropped, error=error)


def log_journal_topic_missing(topic: str) -> None:
    """At the start: its events will be dropped until somebody makes it."""
    text = f"journal: no such topic: {topic}; create it. The consumer goes on"
    _write(logging.WARNING, text, "JournalTopicMissing", topic=topic)


def log_control_silent(topic: str, error: str) -> None:
    """No operator is heard. At most once a minute."""
    text = f"control: no commands are heard from {topic} ({error}); the consumer goes on"
    _write(logging.WARNING, text, "ControlSilent", topic=topic, error=error)


def log_control_garbled(place: str, reason: str, count: int) -> None:
    """Neither command nor answer. At most once a minute."""
    text = f"control: {place} is no command ({reason}), and is passed over; so far: {count}"
    _write(logging.WARNING, text, "ControlGarbled", place=place, reason=reason, count=count)


def log_librdkafka(level: int, facility: str, client: str, text: str, count: int) -> None:
    """A line of librdkafka's own, to the logger `linear_retry.librdkafka`."""
    often = f" ({count} times)" if count > 1 else ""
    _write(
        level,
        f"{facility} [{client}] {text}{often}",
        "Librdkafka",
        to=librdkafka_logger,
        facility=facility,
        client=client,
        count=count,
    )


def log_unread_wait(asked: str) -> None:
    """A handler asks for a wait that cannot be read. Once for each consumer."""
    text = (
        f"RetryAfter: {asked[:200]} is neither a number of seconds nor an HTTP date, a datetime or "
        "a timedelta; the strategy alone decides. Said once"
    )
    _write(logging.WARNING, text, "UnreadWait", asked=asked[:200])


def _write(
    level: int,
    text: str,
    event: str,
    /,
    *,
    to: logging.Logger = logger,
    with_traceback: bool = False,
    **fields: object,
) -> None:
    """Write one line, with `event` and `fields` as attributes of the record."""
    if not to.isEnabledFor(level):
        return
    extra = {f"{FIELD_PREFIX}{name}": _plain(value) for name, value in fields.items()}
    extra[f"{FIELD_PREFIX}event"] = event
    write_guarded(to.log, level, one_line(text), extra=extra, exc_info=with_traceback)


def write_guarded(write: Callable[..., object], *line: object, **options: object) -> None:
    """Call `write`, the `log` of a logger of the program's, whatever its handlers raise.

    Nothing that a log handler does ends a thread of ours: one that cannot reach its server raises
    just when there is an outage. As with `logging`'s own handlers, stderr says so then.
    """
    try:
        write(*line, **options)
    except Exception:  # noqa: BLE001  (handlers and filters are the program's)
        if logging.raiseExceptions and sys.stderr is not None:
            with suppress(Exception):  # a stream of the program's may be behind it, or log again
                traceback.print_exc(file=sys.stderr)


def _plain(value: object) -> object:
    """What any formatter can write as JSON."""
    match value:
        case Scope():
            return str(value)
        case datetime():
            return value.isoformat()
        case tuple():
            return [one if isinstance(one, str) else f"{one[0]}[{one[1]}]" for one in value]
        case _:
            return value


_ERRORS = (
    *(e.DeadLettered, e.DeadLetterFailed, e.LimitReached, e.Skipped),
    *(e.PartitionUnreadable, e.DataLost, e.HandlerTooSlow),
)
_INFOS = (e.Assigned, e.Revoked, e.Stopped, e.CircuitClosed, e.PassedOver, e.LeakDropped)


def level_of(event: e.Event) -> int:
    """The level of an event's line, as `logging` counts."""
    if isinstance(event, _ERRORS):
        return logging.ERROR
    return logging.INFO if isinstance(event, _INFOS) else logging.WARNING


def text_of(event: e.Event) -> str:
    """An event's line, without keys or payloads."""
    match event:
        case e.CircuitOpened() | e.ProbeFailed() | e.CircuitClosed():
            return _circuit_text(event)
        case e.RetriedNow() | e.WaitEnded() | e.LimitLifted() | e.CommandAnswered():
            return _operator_text(event)
        case e.DeadLettered() | e.DeadLetterFailed() | e.LimitReached():
            return _dead_letter_text(event)
        case e.Skipped() | e.PassedOver() | e.LeakDropped() | e.HandlerTooSlow():
            return _message_text(event)
        case e.PartitionRevived() | e.PartitionUnreadable() | e.PartitionReadable() | e.DataLost():
            return _partition_text(event)
        case e.Assigned() | e.Revoked() | e.Lost() | e.CommitFailed() | e.Stopped():
            return _group_text(event)
        case _:
            return _client_text(event)


def _circuit_text(event: e.CircuitOpened | e.ProbeFailed | e.CircuitClosed) -> str:
    match event:
        case e.CircuitOpened():
            return f"circuit open ({event.scope}): {_wait(event)}"
        case e.ProbeFailed():
            return f"circuit stays open ({event.scope}): {_wait(event)}"
        case e.CircuitClosed():
            return f"circuit closed ({event.scope}): {event.outcome} after {event.open_s:.3f} s"


def _operator_text(
    event: e.RetriedNow | e.WaitEnded | e.LimitLifted | e.CommandAnswered,
) -> str:
    match event:
        case e.RetriedNow():
            return (
                f"retried now, as an operator asked ({event.scope}): {event.place}, failures so "
                f"far: {event.failures}; {event.remaining_s:.3f} s before its time"
            )
        case e.WaitEnded():
            return (
                f"wait ended, as an operator asked ({event.scope}): the next message is attempted, "
                f"{event.remaining_s:.3f} s before its time"
            )
        case e.LimitLifted():
            many = "" if event.letters is None else f", or for {event.letters} dead letters"
            return (
                f"limit of dead letters lifted, as an operator asked, until a success{many}: "
                f"{event.reason!r}"
            )
        case e.CommandAnswered():
            place = f" {event.topic}[{event.partition}]@{event.offset}" if event.topic else ""
            return (
                f"commanded by {event.by}: {event.command}{place}: {event.answer} "
                f"(command {event.command_id})"
            )


def _wait(event: e.CircuitOpened | e.ProbeFailed | e.LimitReached) -> str:
    return (
        f"{event.place} failed ({event.error}), failures so far: {event.failures}; next attempt "
        f"in {_due(event)}"
    )


def _due(
    event: e.CircuitOpened
    | e.ProbeFailed
    | e.LimitReached
    | e.DeadLetterFailed
    | e.PartitionUnreadable,
) -> str:
    return f"{event.delay_s:g} s, at {event.retry_at.isoformat(timespec='milliseconds')}"


def _dead_letter_text(event: e.DeadLettered | e.DeadLetterFailed | e.LimitReached) -> str:
    match event:
        case e.DeadLettered():
            escaped = ", ".join(event.escaped_headers)
            return (
                f"dead letter: {event.place} to {event.dead_letter_topic} ({event.reason}, "
                f"failures: {event.failures}, {event.error}), id {event.retry_id}, generation "
                f"{event.generation}"
                + (f"; headers kept in escaped form: {escaped}" * bool(escaped))
            )
        case e.DeadLetterFailed():
            return (
                f"dead letter not sent ({event.scope}): {event.place} to "
                f"{event.dead_letter_topic} ({event.error}), sendings so far: {event.attempts}; "
                f"again in {_due(event)}"
            )
        case e.LimitReached():
            return (
                f"dead letter held back ({event.scope}): {event.limit} in a row without a success, "
                f"so this may be an outage or a bad deployment; {_wait(event)}"
            )


def _message_text(event: e.Skipped | e.PassedOver | e.LeakDropped | e.HandlerTooSlow) -> str:
    match event:
        case e.Skipped():
            return f"skipped for good: {event.place} ({event.error}), id {event.retry_id}"
        case e.PassedOver():
            return f"passed over: {event.place}, replayed for {event.retry_group_id}"
        case e.LeakDropped():
            return f"{event.place} came from a paused partition; it comes again"
        case e.HandlerTooSlow():
            return (
                f"handler too slow: {event.place}, {event.elapsed_s:.1f} s since the last poll, "
                f"above max.poll.interval.ms ({event.max_poll_interval_s:g} s), {event.attempts} "
                "times in a row; nothing was stored. Make the handler faster or raise the limit"
            )


def _partition_text(
    event: e.PartitionRevived | e.PartitionUnreadable | e.PartitionReadable | e.DataLost,
) -> str:
    match event:
        case e.PartitionRevived():
            at = "the committed offset" if event.offset is None else str(event.offset)
            return f"{event.topic}[{event.partition}] begins anew at {at}: {event.reason}"
        case e.PartitionUnreadable():
            return (
                f"cannot be read: {event.place} ({event.error}), tries so far: {event.attempts}; "
                f"its partition stands still, and is read again in {_due(event)}. Mend the "
                "broker's log, or step over the batch: consumer.skip_unreadable"
            )
        case e.PartitionReadable():
            return f"{event.place}: its partition goes on there, after {event.stalled_s:.3f} s"
        case e.DataLost():
            return (
                f"data lost: {event.place} was not read; it goes on at {event.next_offset}. "
                "Retention removed it: raise the topic's retention.ms; or an operator stepped over "
                "a batch that could not be read"
            )


def _group_text(event: e.Assigned | e.Revoked | e.Lost | e.CommitFailed | e.Stopped) -> str:
    match event:
        case e.Assigned():
            return f"assigned: {_list(event.partitions)}"
        case e.Revoked():
            return f"revoked: {_list(event.partitions)}"
        case e.Lost():
            return f"lost: {_list(event.partitions)} ({event.reason})"
        case e.CommitFailed():
            return f"commit refused ({event.error}): {_list(event.partitions)}"
        case e.Stopped():
            left = "left the group" if event.left_group else "its partitions wait for its return"
            return f"stopped; {left}"


def _client_text(
    event: e.ClientError | e.ClientReplaced | e.InstanceIdTaken | e.RetentionTooShort,
) -> str:
    match event:
        case e.ClientError():
            return f"librdkafka: {event.code}: {event.error} ({event.count} times)"
        case e.ClientReplaced():
            return f"a new client joins the group: {event.reason}"
        case e.InstanceIdTaken():
            return (
                f"group.instance.id={event.group_instance_id}: another member has it, or had it "
                "when it was killed; waiting for its session to end, "
                f"{event.remaining_s:.0f} s more at most"
            )
        case e.RetentionTooShort():
            return (
                f"the strategy waits {event.strategy_total_s:g} s in total, and {event.topic} "
                f"keeps its messages for {event.retention_ms / 1000:g} s: messages behind a held "
                "one may be gone before they are read; shorten the one or raise the other"
            )


def _list(partitions: tuple[Partition, ...]) -> str:
    return ", ".join(f"{topic}[{number}]" for topic, number in partitions) or "nothing"
