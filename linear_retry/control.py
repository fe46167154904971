"""What does an operator say to the consumers of a group over a topic, and what do they answer?"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal, NoReturn, TypeAlias, get_args
from uuid import UUID

VERSION = 1
DEFAULT_TOPIC = "linear-retry.control"
LIVES_MS = 60_000
"""How long a command may be carried out after it was sent."""

CommandName: TypeAlias = Literal["retry", "give-up"]
AnswerName: TypeAlias = Literal["done", "pending", "not-held", "no-dead-letters", "expired"]

_LONGEST_TEXT = 255
_LONGEST_BYTES = 16_384
_LARGEST = 2**63 - 1


@dataclass(frozen=True, slots=True)
class Command:
    """An operator's word to `group` about one held message. `at_ms` is when it was sent, UTC.

    `command_id` is a UUID. `by` says who sent it; nobody has checked that.
    """

    command_id: str
    command: CommandName
    group: str
    topic: str
    partition: int
    offset: int
    by: str
    at_ms: int

    def has_expired(self, now_ms: int) -> bool:
        """Whether it is too late for it; or far too early, by clocks that do not agree.

        A command from the future would be read, and carried out, after each restart.
        """
        return abs(now_ms - self.at_ms) > LIVES_MS


@dataclass(frozen=True, slots=True)
class Answer:
    """What became of a command, said by the `member` that has its message's partition.

    - `done`: a retry's attempt has begun, or a give-up's letter is acknowledged;
    - `pending`: it is being carried out, and another answer follows;
    - `not-held`: the message is not held there, or not any more;
    - `no-dead-letters`: it cannot be given up, for there is no topic for that;
    - `expired`: more than a minute lay between sending and reading.
    """

    command_id: str
    member: str
    answer: AnswerName
    at_ms: int

    @property
    def is_final(self) -> bool:
        return self.answer != "pending"


@dataclass(frozen=True, slots=True)
class Garbled:
    """A record that is neither, or one of a version that is not known here."""

    reason: str


class _WrongError(ValueError):
    """Why it is neither."""


def encode(said: Command | Answer) -> bytes:
    """As JSON, in ASCII. `read_control` is its inverse."""
    fields = {name: getattr(said, name) for name in said.__dataclass_fields__}
    return json.dumps({"v": VERSION, **fields}, separators=(",", ":")).encode()


def read_control(value: bytes | None) -> Command | Answer | Garbled:
    """What a record of the control topic says. Never raises, whatever the record is.

    Fields that are not known are passed over: a later version may have more.
    """
    if value is None:
        return Garbled("no value")
    if len(value) > _LONGEST_BYTES:
        return Garbled(f"more than {_LONGEST_BYTES} bytes")
    try:
        found = json.loads(value.decode())
        return _read(found) if isinstance(found, dict) else Garbled("no JSON object")
    except _WrongError as error:
        return Garbled(str(error))
    except RecursionError:
        return Garbled("nested too deeply")
    except ValueError as error:
        return Garbled(f"no JSON: {str(error)[:80]!r}")


def _read(found: Mapping[str, Any]) -> Command | Answer:
    if type(found.get("v")) is not int or found["v"] != VERSION:
        _wrong("v", found.get("v"), f"{VERSION} is known here")
    if "answer" in found:
        return Answer(
            _id(found.get("command_id")),
            _text("member", found.get("member")),
            _one_of("answer", found["answer"], get_args(AnswerName)),
            _whole("at_ms", found.get("at_ms")),
        )
    return Command(
        _id(found.get("command_id")),
        _one_of("command", found.get("command"), get_args(CommandName)),
        _text("group", found.get("group")),
        _text("topic", found.get("topic")),
        _whole("partition", found.get("partition")),
        _whole("offset", found.get("offset")),
        _text("by", found.get("by")),
        _whole("at_ms", found.get("at_ms")),
    )


def _wrong(name: str, value: object, wanted: str) -> NoReturn:
    # ascii: it goes into the log, and whoever can write to the topic chooses what is in it.
    raise _WrongError(f"{name} is {ascii(value)[:80]}: {wanted}")


def _id(value: object) -> str:
    try:
        if isinstance(value, str) and str(UUID(value)) == value:
            return value
    except ValueError as error:
        raise _WrongError(f"command_id is {ascii(value)[:80]}: a UUID") from error
    _wrong("command_id", value, "a UUID")


def _text(name: str, value: object) -> str:
    """Short, and in one line: it goes into logs and on terminals."""
    if isinstance(value, str) and 0 < len(value) <= _LONGEST_TEXT and value.isprintable():
        return value
    _wrong(name, value, f"a printable text of at most {_LONGEST_TEXT} characters")


def _whole(name: str, value: object) -> int:
    if type(value) is int and 0 <= value <= _LARGEST:
        return value
    _wrong(name, value, "a whole number from 0")


def _one_of(name: str, value: object, known: tuple[Any, ...]) -> Any:
    return value if value in known else _wrong(name, value, f"one of {', '.join(known)}")
