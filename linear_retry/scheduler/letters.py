"""The dead letter of a message that the scheduler does not send.

Apart from `drain`, for Spark's executors import it where there is no SQLAlchemy.
"""

import re
from collections.abc import Iterator

from linear_retry.errors import DeadLetterError
from linear_retry.records.dead_letter import parse, smaller_forms
from linear_retry.records.record import OutgoingRecord, Record
from linear_retry.records.retry_headers import (
    DEAD_LETTER,
    HEADER_NAMES,
    NO_OFFSET,
    NO_PARTITION,
    RetryHeaders,
    read_retry_headers,
    write_retry_headers,
)
from linear_retry.store.records import NewDeadLetter, StoredMessage

DRAINED = "drained"
"""The reason of a letter whose message still waited."""
_ORIGIN = re.compile(r"(.*)\[[0-9]+\]@[0-9]{1,19}")


def dead_letter(
    message: StoredMessage | NewDeadLetter,
    topic: str,
    reason: str,
    error: str | None = None,
    due_ms: int | None = None,
) -> OutgoingRecord:
    """Returns the record for the dead-letter topic; `error` is one sentence for people.

    `due_ms`: when it was to be sent, of a message that still waited.
    A message that left a consumer's line keeps its identity and history. One from elsewhere was
    never read from its destination: it is replayed to every group there, with its id.
    """
    own = tuple(header for header in message.headers if header[0] not in HEADER_NAMES)
    try:
        history = read_retry_headers(dict(message.headers))
    except DeadLetterError:
        history = _foreign(message)
    letter = history._replace(send_to=DEAD_LETTER, reason=reason, retry_at_ms=due_ms)
    if letter.replay_id is not None:  # else it would count as the letter that was replayed
        letter = letter._replace(
            generation=letter.generation + 1, replay_id=None, replay_count=None
        )
    if error is not None:
        letter = letter._replace(exception_type="", exception_message=error, exception_stack=None)
    headers = (*own, *write_retry_headers(letter))
    return OutgoingRecord(topic, message.key, message.value, headers)


def smaller_letters(letter: OutgoingRecord, record: Record) -> Iterator[OutgoingRecord]:
    """Yields smaller and smaller forms of a dead letter: send the first that is not too large.

    All but the first refer to `record`, which was read from the scheduler's topic.
    """
    for form in smaller_forms(parse(letter.headers, letter.key, letter.value), record):
        yield OutgoingRecord(letter.topic, form.key, form.value, form.headers())


def origin_topic(origin: str | None) -> str | None:
    """Returns the topic of a place such as `orders[3]@1042`; None for any other text."""
    found = _ORIGIN.fullmatch(origin or "")
    return None if found is None else found[1]


def _foreign(message: StoredMessage | NewDeadLetter) -> RetryHeaders:
    return RetryHeaders(
        retry_id=message.retry_id,
        generation=1,
        # One that names no topic is the scheduler's own.
        destination=message.destination or origin_topic(message.origin) or "unknown",
        original_partition=NO_PARTITION if message.partition is None else message.partition,
        # That of another topic would be the place of another message, which a handler has handled.
        original_offset=NO_OFFSET,
        original_timestamp_ms=-1,
        group_id=message.group_id or message.service,
        send_to=DEAD_LETTER,
        reason="",
        failures=0,
        retry_at_ms=None,
        first_failure_ms=-1,
        last_failure_ms=-1,
        strategy="",
    )
