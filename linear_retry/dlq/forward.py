"""Sends an edited copy of a letter's message; the letter itself stays as it is."""

from __future__ import annotations

import uuid
from collections.abc import Sequence
from typing import NamedTuple

from linear_retry.dlq.letters.letter import Letter, State
from linear_retry.dlq.reading.reading import Cluster
from linear_retry.dlq.reading.resolutions import Resolution, encoded
from linear_retry.dlq.replay.checks import RefusedError, facts_of
from linear_retry.dlq.replay.outgoing import NotReplayableError, Outgoing, outgoing
from linear_retry.dlq.replay.recording import Recorder, recording
from linear_retry.errors import BrokerError, FencedError
from linear_retry.kafka.producers.batch_transactions import RefusedRecordsError
from linear_retry.records.dead_letter import resolutions_topic
from linear_retry.records.record import OutgoingRecord
from linear_retry.records.retry_headers import (
    EDITED_FROM,
    GENERATION,
    HEADER_NAMES,
    ID,
    MESSAGE_ID,
    REPLAY_COUNT,
)
from linear_retry.records.text import Header


class Message(NamedTuple):
    """A message's key, value and headers, without the retry headers."""

    key: bytes | None
    value: bytes | None
    headers: tuple[Header, ...] = ()


def original(cluster: Cluster, letter: Letter) -> Message:
    """Returns the message as it was before it failed. Raises `RefusedError` if it is gone."""
    sent = _outgoing(cluster, letter)
    own = (header for header in sent.headers if header[0] not in HEADER_NAMES)
    return Message(sent.key, sent.value, tuple(own))


def forward(
    cluster: Cluster,
    letter: Letter,
    message: Message,
    *,
    to: str | None,
    resolution: Resolution | None,
) -> str:
    """Sends `message` for the letter's group as a message of its own; returns its `retry-id`.

    That is its `retry-message-id` too: a reader that has had the original has not had this one.

    With a `resolution`, that is recorded in the same transaction. Raises `RefusedError` if the
    letter is not open or the topic cannot be sent to, `FencedError`, and `BrokerError`, which says
    if the message may have been sent all the same, and with which `retry-id`.
    """
    target = _target(letter, to)
    sent = _outgoing(cluster, letter)
    retry_id = f"{letter.id}/edited/{uuid.uuid4().hex[:12]}"
    record = OutgoingRecord(
        target,
        message.key,
        message.value,
        _headers(sent, message, letter.id, retry_id),
        _partition(letter, target, is_same_key=message.key == sent.key),
    )
    facts = facts_of(cluster, letter.topic, [target])
    if facts[target] is None:
        raise RefusedError([f"{target}: no such topic in this cluster; name another one"])
    with recording(cluster, letter.topic, facts) as (recorder, resolutions):
        if resolutions.of(letter) is not None:
            raise RefusedError([f"{letter.id}: it is replayed or resolved already; reopen it"])
        records = [record]
        if resolution is not None:
            records.append(recorder.resolution(letter.resolution_key, encoded(resolution)))
        _commit(recorder, records, retry_id)
    return retry_id


def _commit(recorder: Recorder, records: Sequence[OutgoingRecord], retry_id: str) -> None:
    """Commits the message. Whether it did is unknown if the commit itself was not answered.

    "Run this again" would be wrong then: a letter that is not resolved would be sent twice.
    """
    try:
        recorder.commit(records)
    except (BrokerError, FencedError) as error:
        reason = error.__cause__ or error
        if isinstance(reason, RefusedRecordsError):
            raise BrokerError(f"{reason}; nothing was sent") from error
        to = records[0].destination
        raise BrokerError(
            f"{reason}; the message may have been sent as {retry_id}: look for that retry-id in "
            f"{to} before you send it again"
        ) from error


def edit_resolution(by: str, why: str) -> Resolution:
    """Returns the resolution of a letter that an edited copy stands in for."""
    return Resolution(State.RESOLVED, by, why=f"edited and forwarded: {why}")


def _outgoing(cluster: Cluster, letter: Letter) -> Outgoing:
    if letter.is_retry:
        raise RefusedError([f"{letter.id}: it waits in a retry topic, and is no dead letter"])
    try:
        return outgoing(letter, str(uuid.uuid4()), cluster.record_at)
    except NotReplayableError as error:
        raise RefusedError([f"{letter.id}: {error}"]) from error


def _target(letter: Letter, to: str | None) -> str:
    target = to or (None if letter.origin is None else letter.origin.topic)
    if target is None:
        raise RefusedError([f"{letter.id}: its topic is unknown; name the one to send to"])
    if target in (letter.topic, resolutions_topic(letter.topic)):
        raise RefusedError([f"{target}: these are the dead letters' own topics; name another one"])
    return target


def _partition(letter: Letter, target: str, *, is_same_key: bool) -> int | None:
    """Its original partition, behind which its key's other messages are; else the key decides."""
    origin = letter.origin
    if origin is None or origin.topic != target or not is_same_key:
        return None
    return origin.partition


def _headers(sent: Outgoing, message: Message, edited_from: str, retry_id: str) -> list[Header]:
    """The message's own headers, then the retry headers, under an identity of its own.

    It keeps the original's place: should it fail too, it is replayed in that order.
    """
    own = [(ID, retry_id), (GENERATION, "1"), (REPLAY_COUNT, "1")]
    changed = {name for name, _ in own}
    identity = [h for h in sent.headers if h[0] in HEADER_NAMES and h[0] not in changed]
    if any(name == ID for name, _ in sent.headers):
        identity += [(name, text.encode("utf-8", "replace")) for name, text in own]
    given = {MESSAGE_ID: retry_id, EDITED_FROM: edited_from}
    kept = [h for h in message.headers if h[0] not in HEADER_NAMES and h[0] not in given]
    added = ((name, text.encode("utf-8", "replace")) for name, text in given.items())
    return [*kept, *added, *identity]
