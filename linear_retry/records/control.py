"""The records of the control topic: operators' commands, and what the members answer."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass
from typing import Any, Literal, NoReturn, TypeAlias, TypeVar, get_args
from uuid import UUID

from linear_retry.scope import Place

_T = TypeVar("_T")

VERSION = 1
DEFAULT_TOPIC = "linear-retry.control"
COMMAND_TTL_MS = 60_000
"""How long a command may be carried out after it was sent."""

CommandName: TypeAlias = Literal["retry", "give-up", "lift-limit"]
AnswerName: TypeAlias = Literal[
    "heard",
    "pending",
    "begun",
    "recovered",
    "failed",
    "held-back",
    "not-sent",
    "dead-lettered",
    "skipped",
    "dropped",
    "no-message",
    "last-attempt",
    "lifted",
    "not-held",
    "none-open",
    "no-dead-letters",
    "no-limit",
    "expired",
]

_LONGEST_TEXT = 255
_LONGEST_BYTES = 16_384
_INT64_MAX = 2**63 - 1


@dataclass(frozen=True, slots=True)
class Command:
    """An operator's word to `group`. `at_ms` is when it was sent, UTC.

    It is about one held message, which every give-up needs; or, without `topic`, about all circuits
    of `member`, or of each member of the group (None). `letters` and `why` are `lift-limit`'s: for
    how many, and the reason. `last`: attempt a message also where a failure would be its last.
    `command_id` is a UUID. `by` says who sent it; nobody has checked that.
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
    why: str | None = None
    last: bool = False

    @property
    def place(self) -> Place | None:
        """Its message."""
        return _place_of(self)

    def is_for(self, member: str) -> bool:
        """Whether this member is meant, as far as names tell."""
        return self.member in (None, member)

    def has_expired(self, now_ms: int) -> bool:
        """Whether it is too late for it; or far too early, by clocks that do not agree.

        A command from the future would be read, and carried out, after each restart.
        """
        return abs(now_ms - self.at_ms) > COMMAND_TTL_MS


@dataclass(frozen=True, slots=True)
class Answer:
    """What became of a command in one `member`; docs/operating.md says what each answer means.

    `is_final`: no other one follows from this member. Where it is about one message `topic`,
    `partition` and `offset` say which; `failures` so far, when it is tried again (`retry_at_ms`)
    and the last `error` go with what failed.
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

    @property
    def place(self) -> Place | None:
        """Its message."""
        return _place_of(self)


def _place_of(found: Command | Answer) -> Place | None:
    if found.topic is None or found.partition is None or found.offset is None:
        return None
    return Place(found.topic, found.partition, found.offset)


@dataclass(frozen=True, slots=True)
class Garbled:
    """A record that is neither, or one of a version that is not known here."""

    reason: str


class _InvalidError(ValueError):
    """Why it is neither."""


def encode(message: Command | Answer) -> bytes:
    """As JSON, in ASCII, without what is not set. `read_control` is its inverse."""
    # 0 is a partition, and an offset.
    fields = {k: v for k, v in asdict(message).items() if not (v is None or v is False)}
    if isinstance(message, Answer):
        fields["is_final"] = message.is_final
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
    except _InvalidError as error:
        return Garbled(str(error))
    except RecursionError:
        return Garbled("nested too deeply")
    except ValueError as error:
        return Garbled(f"no JSON: {str(error)[:80]!r}")


def _read(found: Mapping[str, Any]) -> Command | Answer:
    if type(found.get("v")) is not int or found["v"] != VERSION:
        _invalid("v", found.get("v"), f"{VERSION} is known here")
    return _answer(found) if "answer" in found else _command(found)


def _answer(found: Mapping[str, Any]) -> Answer:
    topic, partition, offset = _place(found)
    return Answer(
        _id(found.get("command_id")),
        _text("member", found.get("member")),
        _one_of("answer", found["answer"], get_args(AnswerName)),
        _integer("at_ms", found.get("at_ms")),
        _boolean("is_final", found.get("is_final")),
        topic,
        partition,
        offset,
        _or_none(_integer, "failures", found),
        _or_none(_integer, "retry_at_ms", found),
        _or_none(_text, "error", found),
    )


def _command(found: Mapping[str, Any]) -> Command:
    topic, partition, offset = _place(found)
    command = Command(
        _id(found.get("command_id")),
        _one_of("command", found.get("command"), get_args(CommandName)),
        _text("group", found.get("group")),
        topic,
        partition,
        offset,
        _text("by", found.get("by")),
        _integer("at_ms", found.get("at_ms")),
        _or_none(_text, "member", found),
        _or_none(_integer, "letters", found),
        _or_none(_text, "why", found),
        _boolean("last", found.get("last", False)),
    )
    if command.command == "give-up" and command.topic is None:
        _invalid("topic", None, "a message is given up by itself, and this names none")
    if command.command == "lift-limit" and (command.why is None or command.letters == 0):
        _invalid("why", command.why, "a limit is lifted with a reason, and for one letter at least")
    return command


_Place: TypeAlias = tuple[str, int, int] | tuple[None, None, None]


def _place(found: Mapping[str, Any]) -> _Place:
    """All three, or none."""
    names = "topic", "partition", "offset"
    if all(found.get(name) is None for name in names):
        return None, None, None
    return (
        _text("topic", found.get("topic")),
        _integer("partition", found.get("partition")),
        _integer("offset", found.get("offset")),
    )


def _invalid(name: str, value: object, wanted: str) -> NoReturn:
    # ascii: it goes into the log, and whoever can write to the topic chooses what is in it.
    raise _InvalidError(f"{name} is {ascii(value)[:80]}: {wanted}")


def _id(value: object) -> str:
    try:
        if isinstance(value, str) and str(UUID(value)) == value:
            return value
    except ValueError as error:
        raise _InvalidError(f"command_id is {ascii(value)[:80]}: a UUID") from error
    _invalid("command_id", value, "a UUID")


def _text(name: str, value: object) -> str:
    """Short, and in one line: it goes into logs and on terminals."""
    if isinstance(value, str) and 0 < len(value) <= _LONGEST_TEXT and value.isprintable():
        return value
    _invalid(name, value, f"a printable text of at most {_LONGEST_TEXT} characters")


def _integer(name: str, value: object) -> int:
    if type(value) is int and 0 <= value <= _INT64_MAX:
        return value
    _invalid(name, value, "a whole number from 0")


def _one_of(name: str, value: object, known: tuple[Any, ...]) -> Any:
    return value if value in known else _invalid(name, value, f"one of {', '.join(known)}")


def _boolean(name: str, value: object) -> bool:
    return value if isinstance(value, bool) else _invalid(name, value, "true or false")


def _or_none(read: Callable[[str, object], _T], name: str, found: Mapping[str, Any]) -> _T | None:
    return None if found.get(name) is None else read(name, found[name])
