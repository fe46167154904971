"""The retry headers: their names, and the one reader of what they say."""

from __future__ import annotations

import re
from collections.abc import Mapping
from operator import itemgetter
from typing import Any, NamedTuple

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

    def value(self, header: RetryHeader) -> str | int | None:
        """What the table says of `header`: its default where it is missing, or None."""
        name, default = header.name, header.default
        if header.bounds is not None:
            if header.may_be_missing and self._contents.get(name) is None:
                return None
            low, high = header.bounds
            number = default if isinstance(default, int) else None
            return self.number(name, at_least=low, at_most=high, default=number)
        if default is None and not header.may_be_missing:
            return self.text(name)
        text = self.optional_text(name)
        return text if default is None else text or default

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


class RetryHeader(NamedTuple):
    """One retry header: the field of `RetryHeaders` that it is, its name, and what it may say.

    A missing header has the `default`; without one it is a problem, unless it `may_be_missing`.
    `bounds` are those of a number; None: it is a text, which must not be empty if it is required.
    """

    field: str
    name: str
    bounds: tuple[int, int] | None = None
    default: str | int | None = None
    may_be_missing: bool = False


_WHOLE, _TIME_MS = (0, INT64_MAX), (-1, INT64_MAX)
RETRY_HEADERS = (
    RetryHeader("retry_id", ID),
    RetryHeader("generation", GENERATION, (1, GENERATION_MAX), default=1),
    RetryHeader("destination", DESTINATION),
    RetryHeader("original_partition", ORIGINAL_PARTITION, _WHOLE),
    RetryHeader("original_offset", ORIGINAL_OFFSET, _WHOLE),
    RetryHeader("original_timestamp_ms", ORIGINAL_TIMESTAMP_MS, _TIME_MS, default=-1),
    RetryHeader("group_id", GROUP_ID),
    RetryHeader("send_to", SEND_TO, default=DEAD_LETTER),
    RetryHeader("reason", REASON),
    RetryHeader("failures", COUNTER, _WHOLE, default=0),
    RetryHeader("retry_at_ms", RETRY_AT_MS, _WHOLE, may_be_missing=True),
    RetryHeader("first_failure_ms", FIRST_FAILURE_MS, _TIME_MS, default=-1),
    RetryHeader("last_failure_ms", LAST_FAILURE_MS, _TIME_MS, default=-1),
    RetryHeader("strategy", STRATEGY, default=""),
    RetryHeader("exception_type", EXCEPTION_TYPE, may_be_missing=True),
    RetryHeader("exception_message", EXCEPTION_MESSAGE, may_be_missing=True),
    RetryHeader("exception_stack", EXCEPTION_STACK, may_be_missing=True),
    RetryHeader("escaped_headers", ESCAPED_HEADERS, may_be_missing=True),
    RetryHeader("oversized", OVERSIZED, may_be_missing=True),
    RetryHeader("replay_id", REPLAY_ID, may_be_missing=True),
    RetryHeader("replay_count", REPLAY_COUNT, _WHOLE, may_be_missing=True),
)
"""All of them but the version, in the order in which they are written."""
HEADER_NAMES = frozenset({VERSION, *(header.name for header in RETRY_HEADERS)})
"""The headers that are ours. Any other name, `retry-foo` too, is the user's and stays."""


def write_retry_headers(values: RetryHeaders) -> list[Header]:
    """The headers that say it, each once, as UTF-8 text. `read_retry_headers` is its inverse."""
    escaped = ",".join(values.escaped_headers) if values.escaped_headers else None
    contents = values._asdict() | {"escaped_headers": escaped}
    return [
        (VERSION, str(FORMAT_VERSION).encode()),
        *(
            (header.name, str(content).encode("utf-8", "replace"))
            for header in RETRY_HEADERS
            if (content := contents[header.field]) is not None
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
    values: dict[str, Any] = {each.field: reader.value(each) for each in RETRY_HEADERS}
    values["escaped_headers"] = reader.names(ESCAPED_HEADERS)
    if reader.number(VERSION) > FORMAT_VERSION:
        reader.problems.append(
            f"{VERSION} is above {FORMAT_VERSION}: upgrade linear-retry to read it"
        )
    if reader.problems:
        raise DeadLetterError("not a dead letter: " + "; ".join(reader.problems))
    return RetryHeaders(**values)
