"""A record of a dead-letter topic, written by this library or another, and filters of them."""

from collections.abc import Container
from dataclasses import dataclass
from enum import StrEnum
from typing import NamedTuple

from linear_retry.dlq.letters.foreign import FOREIGN, Contents, ForeignFormat, Origin
from linear_retry.errors import DeadLetterError
from linear_retry.records.lineage import record_id
from linear_retry.records.printable import moment
from linear_retry.records.record import Record
from linear_retry.records.retry_headers import (
    NO_OFFSET,
    NO_PARTITION,
    REPLAY_ID,
    RETRY,
    VERSION,
    read_retry_headers,
)
from linear_retry.records.text import Header
from linear_retry.scope import Place

OURS = "linear-retry"
NONE = "none"


class State(StrEnum):
    """Whether a letter is open, replayed or resolved.

    `retry`: it is no letter, but a message that waits or waited in a retry topic.
    """

    OPEN = "open"
    REPLAYED = "replayed"
    RESOLVED = "resolved"
    RETRY = "retry"

    @property
    def is_done(self) -> bool:
        """Whether nothing is left to be done about it."""
        return self in (State.REPLAYED, State.RESOLVED)


# Not a frozen dataclass: creating one takes 3 µs, and a listing may have a million.
class Letter(NamedTuple):
    """A record of a dead-letter topic.

    `topic` to `timestamp_ms` are the record's own. `key`, `value` and `headers` are unchanged. `id`
    is `retry-id`; for a letter of another system, or a record that is not a dead letter, `foreign/`
    and its own `record_id`. `problem` says why it is not a dead letter, or which part is
    unreadable; `format` may then be `none` and `origin` None.
    """

    topic: str
    partition: int
    offset: int
    timestamp_ms: int
    key: bytes | None
    value: bytes | None
    headers: tuple[Header, ...]
    id: str
    generation: int
    format: str
    problem: str | None = None
    origin: Origin | None = None
    group_id: str | None = None
    reason: str | None = None
    failures: int | None = None
    exception_type: str | None = None
    exception_message: str | None = None
    exception_stack: str | None = None
    escaped_headers: tuple[str, ...] = ()
    """The names, as in `headers`, of those that had to be changed to be read."""
    send_to: str | None = None
    """`dead-letter`, or `retry` in a retry topic; the next two are of its retries there."""
    step: int | None = None
    retry_at_ms: int | None = None

    @property
    def resolution_key(self) -> str:
        """The key of its record in the resolutions topic."""
        return f"{self.id}#{self.generation}"

    @property
    def earlier_key(self) -> str | None:
        """The key that development versions recorded it by: its place alone; None: the same.

        Another record may have been there: the topic may have been made again since.
        """
        if self.format == OURS:
            return None
        return f"foreign/{self.topic}/{self.partition}/{self.offset}#{self.generation}"

    @property
    def is_retry(self) -> bool:
        """Whether it is a message in a retry topic: its retry line brings it back."""
        return self.send_to == RETRY

    @property
    def is_dead_letter(self) -> bool:
        """Whether it was given up: what a replay or a retry has sent has our headers too."""
        is_sent = self.is_retry or any(name == REPLAY_ID for name, _ in self.headers)
        return self.format != NONE and not is_sent


def read_letter(record: Record, formats: tuple[ForeignFormat, ...] = FOREIGN) -> Letter:
    """Reads the letter in `record`. Never raises, whatever it contains.

    If there are headers of several systems, the last ones count: each system appends its own.
    """
    contents = dict(record.headers)
    for form in formats:
        if form.topic in contents:
            return _of_several(record, contents, formats)
    return _ours(record, contents)


def _of_several(record: Record, contents: Contents, formats: tuple[ForeignFormat, ...]) -> Letter:
    names = [name for name, _ in record.headers]
    markers = {form.topic: form for form in formats if form.topic in contents}
    last = next(name for name in reversed(names) if name == VERSION or name in markers)
    return _foreign(record, markers[last], contents) if last in markers else _ours(record, contents)


def _ours(record: Record, contents: Contents) -> Letter:
    try:
        headers = read_retry_headers(contents)
    except DeadLetterError as error:
        return _of_others(record, NONE, str(error))
    return Letter(
        *_as_it_lies(record),
        headers.retry_id,
        headers.generation,
        OURS,
        None,
        Origin(
            headers.destination,
            None if headers.original_partition == NO_PARTITION else headers.original_partition,
            None if headers.original_offset == NO_OFFSET else headers.original_offset,
            headers.original_timestamp_ms,
        ),
        headers.group_id,
        headers.reason,
        headers.failures,
        headers.exception_type or None,
        headers.exception_message,
        headers.exception_stack,
        record.escaped_headers,
        headers.send_to,
        headers.step,
        headers.retry_at_ms,
    )


def _foreign(record: Record, form: ForeignFormat, contents: Contents) -> Letter:
    return _of_others(record, form.name, None)._replace(**form.read(contents))


def _of_others(record: Record, form: str, problem: str | None) -> Letter:
    name = f"foreign/{record_id(record)}"
    kept = record.escaped_headers
    return Letter(*_as_it_lies(record), name, 1, form, problem, escaped_headers=kept)


def _as_it_lies(
    record: Record,
) -> tuple[str, int, int, int, bytes | None, bytes | None, tuple[Header, ...]]:
    """The first fields of `Letter`."""
    place = record.topic, record.partition, record.offset, record.timestamp_ms
    return *place, record.key, record.value, record.headers


def facts_of(letter: Letter, state: str | None = None) -> dict[str, str]:
    """Returns what is known of the letter, by name, in the order in which it is read."""
    origin = letter.origin
    facts = {
        "id": letter.id,
        "generation": str(letter.generation),
        "state": state,
        "written": moment(letter.timestamp_ms),
        "stored at": str(Place(letter.topic, letter.partition, letter.offset)),
        "written by": "unknown: not a dead letter" if letter.format == "none" else letter.format,
        "problem": letter.problem,
        "origin": origin and f"{origin} of {moment(origin.timestamp_ms)}",
        "group": letter.group_id,
        "reason": letter.reason,
        "failures": None if letter.failures is None else str(letter.failures),
        "retry step": None if letter.step is None else str(letter.step),
        "retry at": None if letter.retry_at_ms is None else moment(letter.retry_at_ms),
        "exception": letter.exception_type,
        "message": letter.exception_message,
    }
    return {name: text for name, text in facts.items() if text is not None}


@dataclass(frozen=True, slots=True)
class Filter:
    """Selects letters. All criteria must match; of several values of one, any.

    Of `headers` all must be present: a name and its whole value. `exceptions` are parts of type or
    message, whatever their case. `origins` are a topic and a partition, or None for all of its
    partitions. `since_ms` and `until_ms` apply to the time at which the letter was written, the
    latter exclusive. `keys` has None for letters without a key. `ids` are letters' ids, with or
    without `#generation`. `chosen` has the resolution keys of the selected letters, which may be
    too many for a tuple; None: all letters. `limit` is for readers: at most so many
    that match, the first that are read; a replay takes the oldest. `not_exceptions` and
    `not_origins` exclude what the same values in `exceptions` and `origins` would select. `ranges`
    are partitions of the dead-letter topic, each with a first and a last offset: nothing else is
    read.
    """

    reasons: tuple[str, ...] = ()
    exceptions: tuple[str, ...] = ()
    origins: tuple[tuple[str, int | None], ...] = ()
    keys: tuple[bytes | None, ...] = ()
    since_ms: int | None = None
    until_ms: int | None = None
    ids: tuple[str, ...] = ()
    headers: tuple[tuple[str, bytes], ...] = ()
    states: tuple[State, ...] = ()
    chosen: Container[str] | None = None
    limit: int | None = None
    not_exceptions: tuple[str, ...] = ()
    not_origins: tuple[tuple[str, int | None], ...] = ()
    ranges: tuple[tuple[int, int, int], ...] | None = None

    def matches(self, letter: Letter, state: State) -> bool:
        """Whether the filter selects `letter`, which is in this state."""
        return (
            (not self.states or state in self.states)
            and (self.since_ms is None or letter.timestamp_ms >= self.since_ms)
            and (self.until_ms is None or letter.timestamp_ms < self.until_ms)
            and (not self.reasons or letter.reason in self.reasons)
            and (not self.keys or letter.key in self.keys)
            and (self.ranges is None or _is_within(letter, self.ranges))
            and (self.chosen is None or letter.resolution_key in self.chosen)
            and (not self.ids or letter.id in self.ids or letter.resolution_key in self.ids)
            and (not self.origins or _is_from(letter, self.origins))
            and (not self.exceptions or _failed_with(letter, self.exceptions))
            and not (self.not_origins and _is_from(letter, self.not_origins))
            and not (self.not_exceptions and _failed_with(letter, self.not_exceptions))
            and all(header in letter.headers for header in self.headers)
        )


def _is_within(letter: Letter, ranges: tuple[tuple[int, int, int], ...]) -> bool:
    return any(
        letter.partition == partition and first <= letter.offset <= last
        for partition, first, last in ranges
    )


def _is_from(letter: Letter, origins: tuple[tuple[str, int | None], ...]) -> bool:
    origin = letter.origin
    return origin is not None and (
        (origin.topic, origin.partition) in origins or (origin.topic, None) in origins
    )


def _failed_with(letter: Letter, exceptions: tuple[str, ...]) -> bool:
    texts = [text.casefold() for text in (letter.exception_type, letter.exception_message) if text]
    return any(part.casefold() in text for part in exceptions for text in texts)


EVERYTHING = Filter()
