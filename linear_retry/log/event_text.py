"""The text of each event: one line for people, without keys or payloads."""

from linear_retry import events as e

# The error comes last: it is the longest part, which a narrow terminal truncates.
_FAILURE = "{0.place}, failures: {0.failures}, next attempt in {due}"
_REMOVED = (
    "was not handled; the next offset is {}. Either retention removed it (raise the topic's "
    "retention.ms), or an operator skipped a batch that could not be read"
)
_CUT = (
    "was next, and is not in the log any more; reading continues at offset {}. Either the broker "
    "lost the end of its log (a power failure, an unclean leader election), or the topic was "
    "deleted and created again; what else was lost is not known"
)
_TEXTS: dict[type, str] = {
    e.Assigned: "assigned: {partitions}",
    e.Revoked: "revoked: {partitions}",
    e.Lost: "lost: {partitions} ({0.reason})",
    e.CircuitOpened: f"circuit open ({{0.scope}}): {_FAILURE}",
    e.ProbeFailed: f"circuit still open ({{0.scope}}): {_FAILURE}",
    e.CircuitClosed: "circuit closed ({0.scope}): {0.outcome} after {0.open_s:.3f} s",
    e.RetriedNow: "retried now by an operator ({0.scope}): {0.place}, failures: {0.failures}, "
    "{0.remaining_s:.3f} s early",
    e.WaitEnded: "wait ended by an operator ({0.scope}): the next message is attempted "
    "{0.remaining_s:.3f} s early",
    e.LimitLifted: "limit lifted by an operator until a success{many}: {0.reason!r}",
    e.PausedByHand: "paused ({0.scope}) by {0.by} until {until}: {0.reason!r}",
    e.PauseEnded: "pause ended{how} ({0.scope}) after {0.paused_s:.3f} s",
    e.HeldByGroup: "held for the group until {until} at the latest: {0.by} attempts for all: "
    "{0.error}",
    e.GroupHoldEnded: "attempted again after {0.held_s:.3f} s: {why}",
    e.StrategyReloaded: "strategy reloaded from {0.path}: {0.strategy} in place of {0.before}",
    e.StrategyRefused: "strategy not reloaded, {0.strategy} remains in force: {0.error}",
    e.CommandAnswered: "{0.command}{place} by {0.by}: {0.answer} (command {0.command_id})",
    e.BatchTakenApart: "taken apart: the batch of {0.messages} from {0.place}, failures: "
    "{0.failures}; its messages are attempted apart: {0.error}",
    e.DeadLettered: "dead letter: {0.place} to {0.dead_letter_topic} ({0.reason}), failures: "
    "{0.failures}, id {0.retry_id}, generation {0.generation}{escaped}: {0.error}",
    e.DeadLetterFailed: "not sent ({0.scope}): {0.place} to {0.dead_letter_topic}, "
    "attempts: {0.attempts}, next attempt in {due}",
    e.SentToRetry: "sent to retry: {0.place} to {0.retry_topic}, step {0.step}, failures: "
    "{0.failures}, id {0.retry_id}, next attempt {due}",
    e.ReturnedToSource: "returned to its source: {0.place} to {0.source}, step {0.step}, "
    "id {0.retry_id}",
    e.HandedOver: "handed over to the recovery callback: {0.place}, failures: {0.failures}, "
    "id {0.retry_id}: {0.error}",
    e.LimitReached: "held back ({0.scope}): {0.limit} have left the line in a row without a "
    f"success, so this may be an outage or a bad deployment; {_FAILURE}",
    e.KeyBlocked: "blocked ({0.scope}): {0.place}, failures: {0.failures}; it waits until it is "
    "retried or given up by an operator: {0.error}",
    e.Skipped: "skipped: {0.place}, id {0.retry_id}: {0.error}",
    e.PassedOver: "passed over: {0.place}, which is for group {0.retry_group_id}",
    e.LeakDropped: "dropped: {0.place} came from a paused partition; it will be fetched again",
    e.PartitionRevived: "{0.topic}[{0.partition}] is fetched again from {at}: {0.reason}",
    e.PartitionUnreadable: "cannot read {0.place}: its partition is blocked; repair the broker's "
    "log, or skip the batch with consumer.skip_unreadable; attempts: {0.attempts}, next attempt in "
    "{due}",
    e.PartitionReadable: "{0.place} is readable again, after {0.stalled_s:.3f} s",
    e.DataLost: "data lost: {0.place} {lost}",
    e.HandlerTooSlow: "{0.what} too slow: {0.place}, {0.elapsed_s:.1f} s since {since}, "
    "above max.poll.interval.ms ({0.max_poll_interval_s:g} s), {0.attempts} times in a row; "
    "{outcome}. Make the {0.what} faster, or raise the limit",
    e.CommitFailed: "commit failed: {partitions}: {0.error}",
    e.ClientError: "librdkafka: {0.code}: {0.error} ({0.count} times)",
    e.ClientReplaced: "librdkafka's client was replaced: {0.reason}",
    e.InstanceIdTaken: "group.instance.id={0.group_instance_id}: another member has it, or had it "
    "when it was killed; waiting for its session to end, at most {0.remaining_s:.0f} s more",
    e.HeldMessageAtRisk: "{0.place} is held, and {0.age_s:.0f} s old, where {0.topic} keeps its "
    "messages for {kept_s:g} s: it may be removed before it is handled, with what waits behind it; "
    "raise retention.ms, or retry it or give it up",
    e.WaitingBehind: "waiting behind {0.place} ({0.scope}): {0.messages} messages",
    e.RetentionTooShort: "the strategy waits {0.strategy_total_s:g} s in total, but {0.topic} "
    "keeps its messages for {kept_s:g} s: messages behind a held one may be removed before they "
    "are read; shorten the strategy, or raise retention.ms",
    e.Stopped: "stopped; {left}",
}


def text_of(event: e.Event) -> str:
    """The text of an event in one line, without keys or payloads."""
    return _TEXTS[type(event)].format(event, **_parts(event))


def _parts(event: e.Event) -> dict[str, object]:
    """The parts of the line that are not fields of the event."""
    match event:
        case e.Assigned() | e.Revoked() | e.Lost() | e.CommitFailed():
            each = (f"{topic}[{number}]" for topic, number in event.partitions)
            return {"partitions": ", ".join(each) or "nothing"}
        case e.LimitLifted(letters):
            return {"many": "" if letters is None else f", or for {letters} messages"}
        case e.PausedByHand(until=until) | e.HeldByGroup(until=until):
            return {"until": f"{until:%Y-%m-%dT%H:%M:%SZ}"}
        case e.PauseEnded(closed=closed):
            return {"how": " by an operator" if closed else ""}
        case e.GroupHoldEnded(recovered):
            why = "another member has recovered" if recovered else "it is this member's turn"
            return {"why": why}
        case e.CommandAnswered(topic, partition, offset):
            return {"place": f" {topic}[{partition}]@{offset}" if topic else ""}
        case e.DeadLettered(escaped_headers=names):
            return {"escaped": f", escaped headers: {', '.join(names)}" * bool(names)}
        case e.DataLost(offset=offset, next_offset=next_offset):
            text = _REMOVED if offset < next_offset else _CUT
            return {"lost": text.format(next_offset)}
        case e.PartitionRevived(offset=offset):
            return {"at": "the committed offset" if offset is None else offset}
        case e.HandlerTooSlow(what="worker's handler"):
            return {"since": "it began", "outcome": "its partition waits for it, others go on"}
        case e.HandlerTooSlow():
            return {"since": "the last poll", "outcome": "its result does not count"}
        case e.HeldMessageAtRisk() | e.RetentionTooShort():
            retention_ms = event.retention_ms
            return {"kept_s": retention_ms / 1000}
        case e.Stopped(left_group):
            return {
                "left": "left the group" if left_group else "still a static member of its group"
            }
        case e.SentToRetry(retry_at=retry_at, error=error, short_s=short_s):
            short = f" ({short_s:g} s less than RetryAfter asked for)" * (short_s > 0)
            return {"due": f"at {retry_at.isoformat(timespec='milliseconds')}{short}: {error}"}
        case (
            e.CircuitOpened()
            | e.ProbeFailed()
            | e.LimitReached()
            | e.DeadLetterFailed()
            | e.PartitionUnreadable()
        ):
            at = event.retry_at.isoformat(timespec="milliseconds")
            delay_s = str(round(event.delay_s, 3)).removesuffix(".0")
            return {"due": f"{delay_s} s, at {at}: {event.error}"}
        case _:
            return {}
