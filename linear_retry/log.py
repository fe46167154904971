"""Writes the log: one line for each event, with its fields for programs beside it."""

from __future__ import annotations

import dataclasses
import logging
import sys
import traceback
from collections.abc import Callable
from contextlib import suppress
from datetime import datetime
from typing import assert_never

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
    level, text = line(event)
    fields = {one.name: getattr(event, one.name) for one in dataclasses.fields(event)}
    _write(level, text, type(event).__name__, **fields)


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


def line(event: e.Event) -> tuple[int, str]:
    """How grave it is, as `logging` counts, and one line without keys or payloads."""
    match event:
        case e.CircuitOpened() | e.ProbeFailed() | e.RetriedNow() | e.CircuitClosed():
            return _circuit_line(event)
        case e.WaitEnded() | e.LimitLifted():
            return _operator_line(event)
        case e.Commanded():
            place = "" if event.topic is None else f" {_place(event)}"
            return logging.WARNING, (
                f"commanded by {event.by}: {event.command}{place}: {event.answer} "
                f"(command {event.command_id})"
            )
        case (
            e.DeadLettered()
            | e.DeadLetterFailed()
            | e.LimitReached()
            | e.Skipped()
            | e.PassedOver()
        ):
            return _fate_line(event)
        case e.Assigned() | e.Revoked() | e.Lost() | e.Stopped():
            return _group_line(event)
        case _:
            return _trouble_line(event)


def _circuit_line(
    event: e.CircuitOpened | e.ProbeFailed | e.RetriedNow | e.CircuitClosed,
) -> tuple[int, str]:
    match event:
        case e.CircuitOpened():
            return logging.WARNING, f"circuit open ({event.scope}): {_wait(event)}"
        case e.ProbeFailed():
            return logging.WARNING, f"circuit stays open ({event.scope}): {_wait(event)}"
        case e.RetriedNow():
            return logging.WARNING, (
                f"retried now, as an operator asked ({event.scope}): {_place(event)}, failures so "
                f"far: {event.failures}; {event.early_s:.3f} s before its time"
            )
        case e.CircuitClosed():
            return (
                logging.INFO,
                f"circuit closed ({event.scope}): {event.outcome} after {event.open_s:.3f} s",
            )
        case _:
            assert_never(event)


def _operator_line(event: e.WaitEnded | e.LimitLifted) -> tuple[int, str]:
    match event:
        case e.WaitEnded():
            return logging.WARNING, (
                f"wait ended, as an operator asked ({event.scope}): the next message is attempted, "
                f"{event.early_s:.3f} s before its time"
            )
        case e.LimitLifted():
            count = event.for_letters
            many = "" if count is None else f", or for {count} dead letters"
            return logging.WARNING, (
                f"limit of dead letters lifted, as an operator asked, until a success{many}: "
                f"{event.why!r}"
            )
        case _:
            assert_never(event)


def _wait(event: e.CircuitOpened | e.ProbeFailed | e.LimitReached) -> str:
    return (
        f"{_place(event)} failed ({event.error}), failures so far: {event.failures}; next attempt "
        f"in {event.delay_s:g} s, at {event.retry_at.isoformat(timespec='milliseconds')}"
    )


def _fate_line(
    event: e.DeadLettered | e.DeadLetterFailed | e.LimitReached | e.Skipped | e.PassedOver,
) -> tuple[int, str]:
    match event:
        case e.DeadLettered():
            escaped = ", ".join(event.escaped_headers)
            return logging.ERROR, (
                f"dead letter: {_place(event)} to {event.dead_letter_topic} ({event.reason}, "
                f"failures: {event.failures}, {event.error}), id {event.retry_id}, generation "
                f"{event.generation}"
                + (f"; headers kept in escaped form: {escaped}" * bool(escaped))
            )
        case e.DeadLetterFailed():
            return logging.ERROR, (
                f"dead letter not sent ({event.scope}): {_place(event)} to "
                f"{event.dead_letter_topic} ({event.error}), sendings so far: {event.sends}; "
                f"again in {event.delay_s:g} s, at "
                f"{event.retry_at.isoformat(timespec='milliseconds')}"
            )
        case e.LimitReached():
            return logging.ERROR, (
                f"dead letter held back ({event.scope}): {event.limit} in a row without a success, "
                f"so this may be an outage or a bad deployment; {_wait(event)}"
            )
        case e.Skipped():
            return (
                logging.ERROR,
                f"skipped for good: {_place(event)} ({event.error}), id {event.retry_id}",
            )
        case e.PassedOver():
            return (
                logging.INFO,
                f"passed over: {_place(event)}, replayed for {event.retry_group_id}",
            )
        case _:
            assert_never(event)


def _group_line(event: e.Assigned | e.Revoked | e.Lost | e.Stopped) -> tuple[int, str]:
    match event:
        case e.Assigned():
            return logging.INFO, f"assigned: {_list(event.partitions)}"
        case e.Revoked():
            return logging.INFO, f"revoked: {_list(event.partitions)}"
        case e.Lost():
            return logging.WARNING, f"lost: {_list(event.partitions)} ({event.reason})"
        case e.Stopped():
            left = "left the group" if event.left_group else "its partitions wait for its return"
            return logging.INFO, f"stopped; {left}"
        case _:
            assert_never(event)


def _trouble_line(
    event: e.LeakDropped
    | e.PartitionRevived
    | e.PartitionUnreadable
    | e.PartitionReadable
    | e.DataLost
    | e.HandlerTooSlow
    | e.CommitFailed
    | e.ClientError
    | e.ClientRenewed
    | e.InstanceIdTaken
    | e.RetentionTooShort,
) -> tuple[int, str]:
    match event:
        case e.LeakDropped():
            return logging.INFO, f"{_place(event)} came from a paused partition; it comes again"
        case e.PartitionRevived():
            at = "the committed offset" if event.offset is None else str(event.offset)
            return (
                logging.WARNING,
                f"{event.topic}[{event.partition}] begins anew at {at}: {event.reason}",
            )
        case e.PartitionUnreadable():
            return logging.ERROR, (
                f"cannot be read: {_place(event)} ({event.error}), tries so far: {event.tries}; "
                f"its partition stands still, and is read again in {event.delay_s:g} s, at "
                f"{event.retry_at.isoformat(timespec='milliseconds')}. Mend the broker's log, or "
                "step over the batch: consumer.skip_unreadable"
            )
        case e.PartitionReadable():
            return logging.WARNING, (
                f"{_place(event)}: its partition goes on there, after {event.stopped_s:.3f} s"
            )
        case e.DataLost():
            return logging.ERROR, (
                f"data lost: {_place(event)} was not read; it goes on at {event.next_offset}. "
                "Retention removed it: raise the topic's retention.ms; or an operator stepped over "
                "a batch that could not be read"
            )
        case e.HandlerTooSlow():
            return logging.ERROR, (
                f"handler too slow: {_place(event)}, {event.took_s:.1f} s since the last poll, "
                f"above max.poll.interval.ms ({event.limit_s:g} s), {event.overruns} times in a "
                "row; nothing was stored. Make the handler faster or raise the limit"
            )
        case e.CommitFailed():
            return logging.WARNING, f"commit refused ({event.error}): {_list(event.partitions)}"
        case e.ClientError():
            return logging.WARNING, f"librdkafka: {event.code}: {event.text} ({event.count} times)"
        case e.ClientRenewed():
            return logging.WARNING, f"a new client joins the group: {event.reason}"
        case e.InstanceIdTaken():
            return logging.WARNING, (
                f"group.instance.id={event.instance_id}: another member has it, or had it when it "
                f"was killed; waiting for its session to end, {event.left_s:.0f} s more at most"
            )
        case e.RetentionTooShort():
            return logging.WARNING, (
                f"the strategy waits {event.strategy_total_s:g} s in total, and {event.topic} "
                f"keeps its messages for {event.retention_ms / 1000:g} s: messages behind a held "
                "one may be gone before they are read; shorten the one or raise the other"
            )
        case _:
            assert_never(event)


def _place(event: _Placed) -> str:
    return f"{event.topic}[{event.partition}]@{event.offset}"


def _list(partitions: tuple[Partition, ...]) -> str:
    return ", ".join(f"{topic}[{number}]" for topic, number in partitions) or "nothing"


_Placed = (
    e.CircuitOpened
    | e.ProbeFailed
    | e.RetriedNow
    | e.Commanded
    | e.DeadLettered
    | e.DeadLetterFailed
    | e.LimitReached
    | e.Skipped
    | e.PassedOver
    | e.LeakDropped
    | e.PartitionUnreadable
    | e.PartitionReadable
    | e.DataLost
    | e.HandlerTooSlow
)
