"""The text of an event: one line for people, without keys or payloads."""

from linear_retry import events as e
from linear_retry.scope import Partition


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
            return f"circuit open ({event.scope}): {_failure(event)}"
        case e.ProbeFailed():
            return f"circuit still open ({event.scope}): {_failure(event)}"
        case e.CircuitClosed():
            return f"circuit closed ({event.scope}): {event.outcome} after {event.open_s:.3f} s"


def _operator_text(
    event: e.RetriedNow | e.WaitEnded | e.LimitLifted | e.CommandAnswered,
) -> str:
    match event:
        case e.RetriedNow():
            return (
                f"retried now by an operator ({event.scope}): {event.place}, failures: "
                f"{event.failures}, {event.remaining_s:.3f} s early"
            )
        case e.WaitEnded():
            return (
                f"wait ended by an operator ({event.scope}): the next message is attempted "
                f"{event.remaining_s:.3f} s early"
            )
        case e.LimitLifted():
            many = "" if event.letters is None else f", or for {event.letters} dead letters"
            return (
                f"dead-letter limit lifted by an operator until a success{many}: {event.reason!r}"
            )
        case e.CommandAnswered():
            place = f" {event.topic}[{event.partition}]@{event.offset}" if event.topic else ""
            return (
                f"{event.command}{place} by {event.by}: {event.answer} (command {event.command_id})"
            )


# The error comes last: it is the longest part, and the one that a narrow terminal cuts.
def _failure(event: e.CircuitOpened | e.ProbeFailed | e.LimitReached) -> str:
    return f"{event.place}, failures: {event.failures}, next attempt in {_due(event)}"


def _due(
    event: e.CircuitOpened
    | e.ProbeFailed
    | e.LimitReached
    | e.DeadLetterFailed
    | e.PartitionUnreadable,
) -> str:
    return (
        f"{event.delay_s:g} s, at {event.retry_at.isoformat(timespec='milliseconds')}: "
        f"{event.error}"
    )


def _dead_letter_text(event: e.DeadLettered | e.DeadLetterFailed | e.LimitReached) -> str:
    match event:
        case e.DeadLettered():
            escaped = ", ".join(event.escaped_headers)
            return (
                f"dead letter: {event.place} to {event.dead_letter_topic} ({event.reason}), "
                f"failures: {event.failures}, id {event.retry_id}, generation {event.generation}"
                + (f", escaped headers: {escaped}" * bool(escaped))
                + f": {event.error}"
            )
        case e.DeadLetterFailed():
            return (
                f"dead letter not sent ({event.scope}): {event.place} to "
                f"{event.dead_letter_topic}, attempts: {event.attempts}, next attempt in "
                f"{_due(event)}"
            )
        case e.LimitReached():
            return (
                f"dead letter held back ({event.scope}): {event.limit} in a row without a success, "
                f"so this may be an outage or a bad deployment; {_failure(event)}"
            )


def _message_text(event: e.Skipped | e.PassedOver | e.LeakDropped | e.HandlerTooSlow) -> str:
    match event:
        case e.Skipped():
            return f"skipped: {event.place}, id {event.retry_id}: {event.error}"
        case e.PassedOver():
            return f"passed over: {event.place}, replayed for group {event.retry_group_id}"
        case e.LeakDropped():
            return f"dropped: {event.place} came from a paused partition; it is fetched again"
        case e.HandlerTooSlow():
            return (
                f"handler too slow: {event.place}, {event.elapsed_s:.1f} s since the last poll, "
                f"above max.poll.interval.ms ({event.max_poll_interval_s:g} s), {event.attempts} "
                "times in a row; its result does not count. Make the handler faster, or raise the "
                "limit"
            )


def _partition_text(
    event: e.PartitionRevived | e.PartitionUnreadable | e.PartitionReadable | e.DataLost,
) -> str:
    match event:
        case e.PartitionRevived():
            at = "the committed offset" if event.offset is None else str(event.offset)
            return f"{event.topic}[{event.partition}] is fetched again from {at}: {event.reason}"
        case e.PartitionUnreadable():
            return (
                f"cannot read {event.place}: its partition stands still; repair the broker's log, "
                f"or skip the batch with consumer.skip_unreadable; attempts: {event.attempts}, "
                f"next attempt in {_due(event)}"
            )
        case e.PartitionReadable():
            return f"{event.place} is readable again, after {event.stalled_s:.3f} s"
        case e.DataLost():
            return (
                f"data lost: {event.place} was not read; the next offset is {event.next_offset}. "
                "Either retention removed it (raise the topic's retention.ms), or an operator "
                "skipped a batch that could not be read"
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
            return f"commit refused: {_list(event.partitions)}: {event.error}"
        case e.Stopped():
            left = "left the group" if event.left_group else "still a static member of its group"
            return f"stopped; {left}"


def _client_text(
    event: e.ClientError | e.ClientReplaced | e.InstanceIdTaken | e.RetentionTooShort,
) -> str:
    match event:
        case e.ClientError():
            return f"librdkafka: {event.code}: {event.error} ({event.count} times)"
        case e.ClientReplaced():
            return f"librdkafka's client was replaced: {event.reason}"
        case e.InstanceIdTaken():
            return (
                f"group.instance.id={event.group_instance_id}: another member has it, or had it "
                "when it was killed; waiting for its session to end, at most "
                f"{event.remaining_s:.0f} s more"
            )
        case e.RetentionTooShort():
            return (
                f"the strategy waits {event.strategy_total_s:g} s in total, but {event.topic} "
                f"keeps its messages for {event.retention_ms / 1000:g} s: messages behind a held "
                "one may be removed before they are read; shorten the strategy, or raise "
                "retention.ms"
            )


def _list(partitions: tuple[Partition, ...]) -> str:
    return ", ".join(f"{topic}[{number}]" for topic, number in partitions) or "nothing"
