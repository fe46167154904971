"""The retry headers: their names, and their only reader."""

from collections.abc import Iterable, Mapping
from typing import Any, NamedTuple

from linear_retry.errors import DeadLetterError
from linear_retry.records.text import Header, whole_number

INT64_MAX = 2**63 - 1
FORMAT_VERSION = 1
GENERATION_MAX = STEP_MAX = 2**31 - 1
NO_PARTITION = 2**31 - 1
"""As the original partition: there was none, the key decides. No topic has so many."""
NO_OFFSET = INT64_MAX
"""As the original offset: the message was never read from its destination."""
DEAD_LETTER = "dead-letter"
RETRY = "retry"

VERSION = "retry-version"
ID = "retry-id"
GENERATION = "retry-generation"
ORIGINAL_PARTITION = "retry-original-partition"
ORIGINAL_OFFSET = "retry-original-offset"
ORIGINAL_TIMESTAMP_MS = "retry-original-timestamp-ms"
GROUP_ID = "retry-group-id"
REASON = "retry-reason"
AT_MS = "retry-at-ms"
LAST_FAILURE_MS = "retry-last-failure-ms"
EXCEPTION_TYPE = "retry-exception-type"
EXCEPTION_MESSAGE = "retry-exception-message"
EXCEPTION_STACK = "retry-exception-stack"
ESCAPED_HEADERS = "retry-escaped-headers"
OVERSIZED = "retry-oversized"
RECEIVED_TIMESTAMP = "original-received-timestamp"
RECEIVED_TOPIC = "original-received-topic"
DESTINATION = "retry-destination"
SEND_TO = "retry-send-to"
STEP = "retry-step"
FAILURES = "retry-counter"
REPLAY_ID = "retry-replay-id"
REPLAY_COUNT = "retry-replay-count"
MESSAGE_ID = "retry-message-id"
"""The producer's id of the message. Not among `HEADER_NAMES`: it is the message's own, and stays
through every letter, retry and replay, while `ID` is given when the message first dies."""
EDITED_FROM = "retry-edited-from"
"""The id of the dead letter of which a message is an edited copy; the message's own too."""


class RetryHeaders(NamedTuple):
    """The content of one record's retry headers, in the order in which they are written.

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
    step: int | None = None
    exception_type: str | None = None
    exception_message: str | None = None
    exception_stack: str | None = None
    escaped_headers: tuple[str, ...] = ()
    oversized: str | None = None
    replay_id: str | None = None
    replay_count: int | None = None


class RetryHeader(NamedTuple):
    """One retry header: its field in `RetryHeaders`, its name, and its valid values.

    A missing header has the `default`; without a default it is an error, unless it
    `may_be_missing`. `bounds` are those of a number; None: a text, not empty if it is required.
    """

    field: str
    name: str
    bounds: tuple[int, int] | None = None
    default: str | int | None = None
    may_be_missing: bool = False

    @property
    def rule(self) -> str:
        if self.bounds is not None:
            return "a whole number in decimal digits, {} to {}".format(*self.bounds)
        return "text in UTF-8" if self.may_be_missing else "text in UTF-8, not empty"

    def read(self, content: bytes | None) -> str | int | None:
        """Returns its value, or the default. Raises `ValueError` for an invalid one."""
        if content is None and (self.may_be_missing or self.default is not None):
            return self.default
        if self.bounds is None:
            text = "" if content is None else content.decode()
            if text or self.may_be_missing:
                return text
            if self.default is not None:
                return self.default
        elif content is not None:
            number = whole_number(content)
            if number is not None and self.bounds[0] <= number <= self.bounds[1]:
                return number
        raise ValueError(self.name)


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
    RetryHeader("failures", FAILURES, _WHOLE, default=0),
    RetryHeader("retry_at_ms", AT_MS, _WHOLE, may_be_missing=True),
    RetryHeader("first_failure_ms", "retry-first-failure-ms", _TIME_MS, default=-1),
    RetryHeader("last_failure_ms", LAST_FAILURE_MS, _TIME_MS, default=-1),
    RetryHeader("strategy", "retry-strategy", default=""),
    RetryHeader("step", STEP, (1, STEP_MAX), may_be_missing=True),
    RetryHeader("exception_type", EXCEPTION_TYPE, may_be_missing=True),
    RetryHeader("exception_message", EXCEPTION_MESSAGE, may_be_missing=True),
    RetryHeader("exception_stack", EXCEPTION_STACK, may_be_missing=True),
    RetryHeader("escaped_headers", ESCAPED_HEADERS, may_be_missing=True),
    RetryHeader("oversized", OVERSIZED, may_be_missing=True),
    RetryHeader("replay_id", REPLAY_ID, may_be_missing=True),
    RetryHeader("replay_count", REPLAY_COUNT, _WHOLE, may_be_missing=True),
)
"""All headers except the version, in the order in which they are written."""
_ALL = (RetryHeader("version", VERSION, _WHOLE), *RETRY_HEADERS)
HEADER_NAMES = frozenset(header.name for header in _ALL)
"""The headers that are ours. Any other, even `retry-foo`, is the user's and is kept."""


def write_retry_headers(values: RetryHeaders) -> list[Header]:
    """Writes each header once, as UTF-8 text. `read_retry_headers` is the inverse."""
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


def read_headers(
    contents: Mapping[str, bytes | None], headers: Iterable[RetryHeader]
) -> dict[str, Any]:
    """Reads these headers, by field. `contents` are headers by name; null counts as missing.

    Raises `DeadLetterError`, which names every problem.
    """
    values: dict[str, Any] = {}
    problems: list[str] = []
    for header in headers:
        content = contents.get(header.name)
        try:
            values[header.field] = header.read(content)
        except ValueError:
            found = "is missing" if content is None else f"is {content[:40]!r}"
            problems.append(f"{header.name} {found}, must be {header.rule}")
    if problems:
        raise DeadLetterError("not a dead letter: " + "; ".join(problems))
    return values


def read_retry_headers(contents: Mapping[str, bytes | None]) -> RetryHeaders:
    """Reads `contents`: the headers by name, the last one if a name occurs more than once.

    Raises `DeadLetterError` as `read_headers`, and for a later version.
    """
    values = read_headers(contents, _ALL)
    if values.pop("version") > FORMAT_VERSION:
        raise DeadLetterError(
            f"not a dead letter: {VERSION} is above {FORMAT_VERSION}: upgrade linear-retry to "
            "read it"
        )
    values["escaped_headers"] = listed_names(values["escaped_headers"])
    return RetryHeaders(**values)


def listed_names(text: str | None) -> tuple[str, ...]:
    """Splits a comma-separated list of names. An empty text is one empty name."""
    return () if text is None else tuple(text.split(","))
