"""The retry headers: their names, and the one reader of what they say."""

from __future__ import annotations

import re
from collections.abc import Mapping
from operator import itemgetter
from typing import NamedTuple

from linear_retry.errors import DeadLetterError
from linear_retry.records.text import Header, whole_number

INT64_MAX = 2**63 - 1


class HeaderReader:
    """Reads headers by name and type; never raises, but collects `problems`, one text each.

    One whose value is null counts as missing. What is missing or garbled reads as a stand-in, so
    look at `problems` before using anything.
    """

    def __init__(self, contents: Mapping[str, bytes | None]) -> None:
        """`contents` are headers by name."""
        self._contents = contents
        self.problems: list[str] = []

    def text(self, name: str) -> str:
        """Text of at least one character; a problem where it is missing."""
        text = self.optional_text(name)
        if not text:
            self._complain(name, "text in UTF-8, not empty")
        return text or ""

    def optional_text(self, name: str) -> str | None:
        content = self._contents.get(name)
        try:
            return None if content is None else content.decode()
        except UnicodeDecodeError:
            self._complain(name, "text in UTF-8")
            return None

    def number(
        self,
        name: str,
        *,
        at_least: int = 0,
        at_most: int = INT64_MAX,
        default: int | None = None,
    ) -> int:
        """A whole number in that range; a problem where it is missing and has no default."""
        content = self._contents.get(name)
        if content is None and default is not None:
            return default
        number = None if content is None else whole_number(content)
        if number is None or not at_least <= number <= at_most:
            self._complain(name, f"a whole number in decimal digits, {at_least} to {at_most}")
            return at_least
        return number

    def optional_number(self, name: str) -> int | None:
        return None if self._contents.get(name) is None else self.number(name)

    def names(self, name: str) -> tuple[str, ...]:
        """A list with commas; empty where it is missing. An empty text is one empty name."""
        text = self.optional_text(name)
        return () if text is None else tuple(text.split(","))

    def _complain(self, name: str, rule: str) -> None:
        content = self._contents.get(name)
        found = "is missing" if content is None else f"is {content[:40]!r}"
        problem = f"{name} {found}, must be {rule}"
        if not any(known.startswith(f"{name} ") for known in self.problems):
            self.problems.append(problem)


FORMAT_VERSION = 1
GENERATION_MAX = 2**31 - 1

VERSION = "retry-version"
ID = "retry-id"
GENERATION = "retry-generation"
DESTINATION = "retry-destination"
ORIGINAL_PARTITION = "retry-original-partition"
ORIGINAL_OFFSET = "retry-original-offset"
ORIGINAL_TIMESTAMP_MS = "retry-original-timestamp-ms"
GROUP_ID = "retry-group-id"
SEND_TO = "retry-send-to"
REASON = "retry-reason"
COUNTER = "retry-counter"
RETRY_AT_MS = "retry-at-ms"
FIRST_FAILURE_MS = "retry-first-failure-ms"
LAST_FAILURE_MS = "retry-last-failure-ms"
STRATEGY = "retry-strategy"
EXCEPTION_TYPE = "retry-exception-type"
EXCEPTION_MESSAGE = "retry-exception-message"
EXCEPTION_STACK = "retry-exception-stack"
ESCAPED_HEADERS = "retry-escaped-headers"
OVERSIZED = "retry-oversized"
REPLAY_ID = "retry-replay-id"
REPLAY_COUNT = "retry-replay-count"

USUAL = (
    *(VERSION, ID, GENERATION, DESTINATION),
    *(ORIGINAL_PARTITION, ORIGINAL_OFFSET, ORIGINAL_TIMESTAMP_MS, GROUP_ID, SEND_TO, REASON),
    *(COUNTER, FIRST_FAILURE_MS, LAST_FAILURE_MS, STRATEGY),
)
"""Those that each letter of ours has, in the order of the pattern's groups."""
EXCEPTION = (EXCEPTION_TYPE, EXCEPTION_MESSAGE, EXCEPTION_STACK)
RARE = (RETRY_AT_MS, ESCAPED_HEADERS, OVERSIZED, REPLAY_ID, REPLAY_COUNT)
HEADER_NAMES = frozenset({*USUAL, *EXCEPTION, *RARE})
"""The headers that are ours. Any other name, `retry-foo` too, is the user's and stays."""

DEAD_LETTER = "dead-letter"

_TEXT, _ANY_TEXT = r"([^\0]+)", r"([^\0]*)"
# At most 18 digits: all of them are numbers of 64 bits. 9 for what has a limit of 32.
_NUMBER, _SMALL, _TIME = r"([0-9]{1,18})", r"([1-9][0-9]{0,8})", r"(-1|[0-9]{1,18})"
_USUAL_SHAPE = re.compile(
    "\0".join(
        (
            *(str(FORMAT_VERSION), _TEXT, _SMALL, _TEXT, _NUMBER, _NUMBER, _TIME),
            *(_TEXT, _ANY_TEXT, _TEXT, _NUMBER, _TIME, _TIME, _ANY_TEXT),
        )
    )
)
_usual_of = itemgetter(*USUAL)


class RetryHeaders(NamedTuple):
    """What the retry headers of one record say, in the order in which they are written.

    A named tuple: millions are read.
    """

    retry_id: str
    generation: int
    destination: str
    original_partition: int
    original_offset: int
    original_timestamp_ms: int
    group_id: str
    send_to: str
    reason: str
    failures: int
    retry_at_ms: int | None
    first_failure_ms: int
    last_failure_ms: int
    strategy: str
    exception_type: str | None = None
    exception_message: str | None = None
    exception_stack: str | None = None
    escaped_headers: tuple[str, ...] = ()
    oversized: str | None = None
    replay_id: str | None = None
    replay_count: int | None = None


_WRITTEN = (
    *(ID, GENERATION, DESTINATION, ORIGINAL_PARTITION, ORIGINAL_OFFSET, ORIGINAL_TIMESTAMP_MS),
    *(GROUP_ID, SEND_TO, REASON, COUNTER, RETRY_AT_MS, FIRST_FAILURE_MS, LAST_FAILURE_MS),
    *(STRATEGY, *EXCEPTION, ESCAPED_HEADERS, OVERSIZED, REPLAY_ID, REPLAY_COUNT),
)
_HEADER_OF = dict(zip(RetryHeaders._fields, _WRITTEN, strict=True))


def write_retry_headers(values: RetryHeaders) -> list[Header]:
    """The headers that say it, each once, as UTF-8 text. `read_retry_headers` is its inverse."""
    escaped = ",".join(values.escaped_headers) if values.escaped_headers else None
    contents = {**values._asdict(), "escaped_headers": escaped}
    return [
        (VERSION, str(FORMAT_VERSION).encode()),
        *(
            (_HEADER_OF[field], str(content).encode("utf-8", "replace"))
            for field, content in contents.items()
            if content is not None
        ),
    ]


def read_retry_headers(contents: Mapping[str, bytes | None]) -> RetryHeaders:
    """What `contents` say: the headers by name, the last of those of one name.

    Raises `DeadLetterError`, which names every problem, where a header without a default is missing
    or any of ours is garbled.
    """
    return _matched(contents) or _checked(contents)


def _matched(contents: Mapping[str, bytes | None]) -> RetryHeaders | None:
    """Those of a usual letter by one match, in a tenth of the time; None where any is unusual."""
    for name in RARE:
        if name in contents:
            return None
    try:
        # No header of ours has a NUL: where one is in there, the pattern does not match.
        joined = b"\0".join(_usual_of(contents)).decode()
        kind, message, stack = [
            None if text is None else text.decode() for text in map(contents.get, EXCEPTION)
        ]
    except (KeyError, TypeError, UnicodeDecodeError):
        return None
    found = _USUAL_SHAPE.fullmatch(joined)
    if found is None:
        return None
    retry_id, generation, topic, partition, offset, timestamp_ms, *rest = found.groups()
    group_id, send_to, reason, failures, first_ms, last_ms, strategy = rest
    return RetryHeaders(
        retry_id,
        int(generation),
        topic,
        int(partition),
        int(offset),
        int(timestamp_ms),
        group_id,
        send_to or DEAD_LETTER,
        reason,
        int(failures),
        None,
        int(first_ms),
        int(last_ms),
        strategy,
        kind,
        message,
        stack,
    )


def _checked(contents: Mapping[str, bytes | None]) -> RetryHeaders:
    reader = HeaderReader(contents)
    found = RetryHeaders(
        retry_id=reader.text(ID),
        generation=reader.number(GENERATION, at_least=1, at_most=GENERATION_MAX, default=1),
        destination=reader.text(DESTINATION),
        original_partition=reader.number(ORIGINAL_PARTITION),
        original_offset=reader.number(ORIGINAL_OFFSET),
        original_timestamp_ms=reader.number(ORIGINAL_TIMESTAMP_MS, at_least=-1, default=-1),
        group_id=reader.text(GROUP_ID),
        send_to=reader.optional_text(SEND_TO) or DEAD_LETTER,
        reason=reader.text(REASON),
        failures=reader.number(COUNTER, default=0),
        first_failure_ms=reader.number(FIRST_FAILURE_MS, at_least=-1, default=-1),
        last_failure_ms=reader.number(LAST_FAILURE_MS, at_least=-1, default=-1),
        strategy=reader.optional_text(STRATEGY) or "",
        exception_type=reader.optional_text(EXCEPTION_TYPE),
        exception_message=reader.optional_text(EXCEPTION_MESSAGE),
        exception_stack=reader.optional_text(EXCEPTION_STACK),
        retry_at_ms=reader.optional_number(RETRY_AT_MS),
        escaped_headers=reader.names(ESCAPED_HEADERS),
        oversized=reader.optional_text(OVERSIZED),
        replay_id=reader.optional_text(REPLAY_ID),
        replay_count=reader.optional_number(REPLAY_COUNT),
    )
    if reader.number(VERSION) > FORMAT_VERSION:
        reader.problems.append(
            f"{VERSION} is above {FORMAT_VERSION}: upgrade linear-retry to read it"
        )
    if reader.problems:
        raise DeadLetterError("not a dead letter: " + "; ".join(reader.problems))
    return found
