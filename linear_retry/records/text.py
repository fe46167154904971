"""Texts of headers and exceptions: bounded, valid to send, and never raising."""

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from traceback import TracebackException
from typing import TypeAlias, TypeVar
from urllib.parse import quote_from_bytes

_T = TypeVar("_T")

Header: TypeAlias = tuple[str, bytes | None]

UNREADABLE_NAME = "*unreadable*"
"""Replaces a header name that cannot be read at all; `escape_name` never yields an asterisk."""

_INT64 = range(-(2**63), 2**63)


def sendable(
    headers: Iterable[tuple[object, object]],
) -> tuple[tuple[Header, ...], tuple[str, ...]]:
    """Returns `headers` in a form that can be sent, in order, and the names of those changed.

    Never raises and drops nothing, whatever the names and values are. A name that cannot be sent
    is escaped (`escape_name`). A value that is neither bytes nor None is sent as its text. Both are
    changes, and the second tuple then has the header's name *as sent*; a name with a comma or a
    percent sign is escaped there too, so that each can be read back
    (`urllib.parse.unquote_to_bytes`).
    """
    kept: list[Header] = []
    changed: list[str] = []
    for name, value in headers:
        sent_name, sent_value = _sendable_name(name), _sendable_value(value)
        if not (isinstance(name, str) and sent_name == name and isinstance(value, bytes | None)):
            sent_name = _listed_name(name, sent_name)
            changed.append(sent_name)
        kept.append((sent_name, sent_value))
    return tuple(kept), tuple(changed)


def escape_name(name: bytes) -> str:
    """Percent-encodes `name`: injective; `urllib.parse.unquote_to_bytes` is the inverse."""
    return quote_from_bytes(name, safe="")


def _sendable_name(name: object) -> str:
    match name:
        case str():
            # A lone surrogate makes confluent-kafka 2.16.1 dereference a null pointer (segfault);
            # librdkafka truncates the name at a NUL.
            on_the_wire = name.encode("utf-8", "surrogatepass")
        case bytes():
            on_the_wire = name
        case _:
            return UNREADABLE_NAME
    try:
        text = on_the_wire.decode()
    except UnicodeDecodeError:
        return escape_name(on_the_wire)
    return escape_name(on_the_wire) if "\0" in text else text


def _listed_name(name: object, sent_name: str) -> str:
    """Escapes a name for the comma-separated list, whose readers unescape every name."""
    is_escaped = sent_name != name and sent_name.encode() != name
    if is_escaped or not set(",%") & set(sent_name):
        return sent_name
    return escape_name(sent_name.encode())


def _sendable_value(value: object) -> bytes | None:
    match value:
        case bytes() | None:
            return value
        case str():
            return value.encode("utf-8", "surrogatepass")
        case _:
            return guarded(lambda: str(value), otherwise=UNREADABLE_NAME).encode("utf-8", "replace")


def guarded(foreign: Callable[[], _T], *, otherwise: _T) -> _T:
    """Returns the result of `foreign`, or `otherwise` if it raises.

    For methods of users' objects: an exception whose `__str__` raises still needs a dead letter.
    """
    try:
        return foreign()
    except Exception:  # noqa: BLE001  (a user's __str__ may raise anything; see above)
        return otherwise


def valid_unicode(text: str) -> str:
    """Returns `text` with each lone surrogate replaced by a question mark."""
    return text.encode("utf-8", "replace").decode()


def first_bytes(text: str, limit_bytes: int) -> str:
    """Returns the start of `text` that fits into `limit_bytes` of UTF-8; no character is split."""
    # Cut by characters first, so that a text of 100 MB is not encoded for one KiB of it.
    encoded = text[:limit_bytes].encode("utf-8", "replace")
    return encoded[:limit_bytes].decode("utf-8", "ignore")


def one_line(text: str) -> str:
    """Returns `text` with control characters and line breaks escaped as in a Python literal.

    Otherwise a sender could forge log lines, or move the terminal's cursor.
    """
    return text if text.isprintable() else "".join(map(_printable, text))


def _printable(character: str) -> str:
    if character.isprintable():
        return character
    return character.encode("unicode_escape").decode()


def whole_number(content: bytes) -> int | None:
    """Parses decimal digits; returns None for anything else, or beyond 64 bits.

    Stricter than `int`, which also accepts `1_000`, ` 1 ` and other scripts' digits, and which
    raises for more than 4300 digits.
    """
    digits = content.removeprefix(b"-")
    if not digits.isdigit() or len(digits) > 19:
        return None
    number = int(content)
    return number if number in _INT64 else None


MESSAGE_LIMIT_BYTES = 1024
STACK_LIMIT_BYTES = 8 * 1024

_FRAMES_LIMIT = 20


@dataclass(frozen=True, slots=True)
class ErrorText:
    """An exception as text. `message` or `stack` is None if it was left out."""

    type: str
    message: str | None
    stack: str | None


def describe(error: BaseException) -> ErrorText:
    """Returns `error` as text: type and message of at most 1 KiB each, stack of at most 8 KiB.

    The stack is formatted as Python prints it, causes first and `error` last. If it is too long,
    the part furthest from the raise is cut; each traceback keeps the 20 frames nearest to it.
    """
    return ErrorText(_type_name(error), _message(error), _stack(error))


def brief(error: BaseException) -> str:
    """Returns `error` in one line of at most 1 KiB, for events and logs."""
    unspoken = f"<{_type_name(error)}, whose __repr__ raised an exception>"
    text = first_bytes(guarded(lambda: repr(error), otherwise=unspoken), MESSAGE_LIMIT_BYTES)
    return first_bytes(one_line(text), MESSAGE_LIMIT_BYTES)


def leaves(error: BaseException) -> Iterator[BaseException]:
    """Yields the errors in a group, each once, however deeply nested; or `error`, if not a group.

    Not recursive: a retry loop that wraps the error each time nests them thousands deep.
    """
    waiting, seen = [error], set[int]()
    while waiting:
        one = waiting.pop()
        if id(one) in seen:
            continue
        seen.add(id(one))
        if isinstance(one, BaseExceptionGroup):
            waiting.extend(reversed(one.exceptions))
        else:
            yield one


def _type_name(error: BaseException) -> str:
    kind = type(error)
    name = guarded(lambda: f"{kind.__module__}.{kind.__qualname__}", otherwise=kind.__qualname__)
    return first_bytes(name, MESSAGE_LIMIT_BYTES)


def _message(error: BaseException) -> str:
    text = guarded(lambda: str(error), otherwise="<the exception's __str__ raised an exception>")
    return first_bytes(text, MESSAGE_LIMIT_BYTES)


def _stack(error: BaseException) -> str:
    kept: list[str] = []
    left_bytes = STACK_LIMIT_BYTES
    for piece in reversed(_pieces(error)):
        left_bytes -= len(piece.encode())
        if left_bytes < 0:
            break
        kept.append(piece)
    return "".join(reversed(kept))


def _pieces(error: BaseException) -> list[str]:
    """Returns the traceback's parts, each shortened, so a long message does not push out frames."""
    # A negative limit keeps the last frames, which are nearest to the raise.
    lines = guarded(
        lambda: [*TracebackException.from_exception(error, limit=-_FRAMES_LIMIT).format()],
        otherwise=["<the traceback cannot be formatted>"],
    )
    cut = (first_bytes(line, MESSAGE_LIMIT_BYTES) for line in lines)
    return [line if line.endswith("\n") else line + "\n" for line in cut]


def paused_text(by: str, reason: str) -> str:
    """Who has paused something, and why: what stands in place of an error."""
    return f"paused by {by}: {reason}"


def held_by_group_text(by: str, error: str) -> str:
    """Who attempts messages while others hold theirs, and what has failed."""
    return f"{by} attempts for the group: {error}"
