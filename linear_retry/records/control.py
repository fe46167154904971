"""The records of the control topic: operators' commands and the members' answers."""

import json
from contextlib import suppress
from dataclasses import asdict, dataclass
from typing import Any, Literal, TypeAlias, get_args
from uuid import UUID

from linear_retry.records.json_fields import (
    Found,
    InvalidError,
    Reader,
    boolean,
    invalid,
    one_of,
    optional,
    read_fields,
    read_object,
    readers_of,
)
from linear_retry.records.retry_headers import INT64_MAX
from linear_retry.records.text import one_line
from linear_retry.scope import Place, Scope

VERSION = 1
DEFAULT_TOPIC = "linear-retry.control"
COMMAND_TTL_MS = 60_000
"""How long after it was sent a command may still be carried out."""

CommandName: TypeAlias = Literal[
    "retry", "give-up", "lift-limit", "reload", "open", "close", "outage", "recovery"
]
AnswerName: TypeAlias = Literal[
    "heard",
    "pending",
    "begun",
    "recovered",
    "failed",
    "held-back",
    "blocked",
    "not-sent",
    "dead-lettered",
    "sent-to-retry",
    "handed-over",
    "returned",
    "skipped",
    "dropped",
    "no-message",
    "last-attempt",
    "lifted",
    "paused",
    "ended",
    "not-paused",
    "reloaded",
    "unchanged",
    "refused",
    "no-file",
    "not-held",
    "none-open",
    "no-dead-letters",
    "no-limit",
    "expired",
]

_LONGEST_TEXT = 255
_LONGEST_BYTES = 16_384


@dataclass(frozen=True, slots=True)
class Command:
    """An operator's command to `group`. `at_ms` is when it was sent, UTC.

    With `topic` it targets one held message, which a give-up requires; without it, all circuits
    of `member`, or of every member of the group (None). `letters` and `reason` belong to
    `lift-limit`: how many letters, and why. `last`: attempt the message even if one more failure
    would be final. `open` pauses for `for_s` seconds from `at_ms` on, for a `reason`, and `close`
    ends that: of `only_topic`, or of everything. `command_id` is a UUID. `by` names the sender,
    unverified.

    `outage` and `recovery` are members' own: `by` attempts its messages for the whole group, for
    `for_s` seconds at most, as its own have failed since `first_ms` with `reason`; and it has
    succeeded.
    """

    command_id: str
    command: CommandName
    group: str
    topic: str | None
    partition: int | None
    offset: int | None
    by: str
    at_ms: int
    member: str | None = None
    letters: int | None = None
    reason: str | None = None
    last: bool = False
    for_s: int | None = None
    only_topic: str | None = None
    first_ms: int | None = None

    @property
    def place(self) -> Place | None:
        return _place_of(self)

    @property
    def scope(self) -> Scope:
        """What is paused."""
        return Scope(self.only_topic)

    @property
    def until_ms(self) -> int:
        """When the pause is over, UTC."""
        return self.at_ms + 1000 * (self.for_s or 0)

    @property
    def is_standing(self) -> bool:
        """Whether it is for those too who join the group later: until the pause is over."""
        return self.command in ("open", "close") or self.is_announcement

    @property
    def is_announcement(self) -> bool:
        """Whether a member says it to its group, which does not answer."""
        return self.command in ("outage", "recovery")

    def is_for(self, member: str) -> bool:
        """Whether it is addressed to this member, by name."""
        return self.member in (None, member)

    def has_expired(self, now_ms: int) -> bool:
        """Whether it is too old; or too far in the future, if clocks disagree.

        A command from the future would be read and carried out after each restart.
        """
        if self.is_standing and now_ms > self.at_ms:
            return self.command == "open" and now_ms >= self.until_ms
        return abs(now_ms - self.at_ms) > COMMAND_TTL_MS


@dataclass(frozen=True, slots=True)
class Answer:
    """The result of a command in one `member`.

    docs/operations/held-messages.md says what each answer means.

    `is_final`: no other answer follows from this member. `topic`, `partition` and `offset` name
    the message, if it is about one; `failures`, `retry_at_ms` and the last `error` describe its
    failures so far. `retry_at_ms` is also when a pause is over, `strategy` has the labels of what
    is in force, and `error` says why it is not what the file has.
    """

    command_id: str
    member: str
    answer: AnswerName
    at_ms: int
    is_final: bool = True
    topic: str | None = None
    partition: int | None = None
    offset: int | None = None
    failures: int | None = None
    retry_at_ms: int | None = None
    error: str | None = None
    strategy: str | None = None

    @property
    def place(self) -> Place | None:
        return _place_of(self)


def _place_of(found: Command | Answer) -> Place | None:
    if found.topic is None or found.partition is None or found.offset is None:
        return None
    return Place(found.topic, found.partition, found.offset)


@dataclass(frozen=True, slots=True)
class Garbled:
    """A record that is neither, or one of an unknown version."""

    reason: str


def short(text: str) -> str | None:
    """Returns the text as a record may have it: in one line, and not too long; None if empty."""
    return one_line(text)[:_LONGEST_TEXT] or None


def encode(message: Command | Answer) -> bytes:
    """Encodes it as ASCII JSON, without unset fields. `read_control` is the inverse."""
    # Not by truth value: 0 is a valid partition and offset.
    fields = {k: v for k, v in asdict(message).items() if not (v is None or v is False)}
    if isinstance(message, Answer):
        fields["is_final"] = message.is_final
    return json.dumps({"v": VERSION, **fields}, separators=(",", ":")).encode()


def read_control(value: bytes | None) -> Command | Answer | Garbled:
    """Decodes a record of the control topic. Never raises, whatever the record holds.

    Unknown fields are ignored: a later version may have more.
    """
    if value is not None and len(value) > _LONGEST_BYTES:
        return Garbled(f"more than {_LONGEST_BYTES} bytes")
    try:
        return _read(read_object(value))
    except InvalidError as error:
        return Garbled(str(error))


def _read(found: Found) -> Command | Answer:
    if type(found.get("v")) is not int or found["v"] != VERSION:
        invalid("v", found.get("v"), f"this release reads {VERSION}")
    # Topic, partition and offset come together or not at all.
    place = _PLACE if any(found.get(name) is not None for name in _PLACE) else {}
    if "answer" in found:
        return Answer(**read_fields(found, _ANSWER | place))
    command = Command(**read_fields(found, _COMMAND | place))
    if command.command == "give-up" and command.topic is None:
        invalid("topic", None, "a give-up must name one message")
    if command.command == "open" and not (command.reason and command.for_s):
        invalid("reason", command.reason, "a pause needs a reason, and at least one second")
    if command.command == "outage" and command.for_s is None:
        invalid("for_s", None, "an outage is announced for some seconds, or for none")
    if command.command == "lift-limit" and (command.reason is None or command.letters == 0):
        rule = "lifting a limit needs a reason, and at least one letter"
        invalid("reason", command.reason, rule)
    return command


def _uuid(name: str, value: object) -> str:
    # Only the form that str() writes: UUID() also accepts braces and any case.
    with suppress(ValueError):
        if isinstance(value, str) and str(UUID(value)) == value:
            return value
    return invalid(name, value, "a UUID")


def _text(name: str, value: object) -> str:
    """Reads a short, printable text: it is shown in logs and on terminals."""
    if isinstance(value, str) and 0 < len(value) <= _LONGEST_TEXT and value.isprintable():
        return value
    return invalid(name, value, f"a printable text of at most {_LONGEST_TEXT} characters")


def _integer(name: str, value: object) -> int:
    if type(value) is int and 0 <= value <= INT64_MAX:
        return value
    return invalid(name, value, "a whole number from 0")


def _false_if_missing(name: str, value: object) -> bool:
    return value is not None and boolean(name, value)


_BY_TYPE: dict[Any, Reader] = {
    str: _text,
    str | None: optional(_text),
    int: _integer,
    int | None: optional(_integer),
    bool: boolean,
    CommandName: one_of(get_args(CommandName)),
    AnswerName: one_of(get_args(AnswerName)),
}
_ANSWER = readers_of(Answer, _BY_TYPE) | {"command_id": _uuid}
_COMMAND = readers_of(Command, _BY_TYPE) | {"command_id": _uuid, "last": _false_if_missing}
_PLACE: dict[str, Reader] = {"topic": _text, "partition": _integer, "offset": _integer}
