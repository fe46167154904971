"""Text of headers and exceptions: bounded, sendable, and without ever raising another."""

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from traceback import TracebackException
from typing import TypeAlias, TypeVar
from urllib.parse import quote_from_bytes

_T = TypeVar("_T")

Header: TypeAlias = tuple[str, bytes | None]

UNREADABLE_NAME = "*unreadable*"
"""Stands where a header's name cannot be had at all; `escape_name` never makes an asterisk."""

_INT64 = range(-(2**63), 2**63)


def sendable(
    headers: Iterable[tuple[object, object]],
) -> tuple[tuple[Header, ...], tuple[str, ...]]:
    """The headers that may be sent for `headers`, in order, and the names of those changed.

    Total: whatever the names and values are, nothing is raised and nothing is left out. A name
    that cannot be sent is escaped (`escape_name`). A value of another type than bytes or None is
    sent as its text. Both are changes, and the header's name *as sent* is then in the second tuple;
    a name with a comma or a percent sign is escaped there too, so that each can be read back
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
    """`name` in URL's percent form: injective; `urllib.parse.unquote_to_bytes` is its inverse."""
    return quote_from_bytes(name, safe="")


def _sendable_name(name: object) -> str:
    match name:
        case str():
            # A lone surrogate makes confluent-kafka 2.16.1 read through a null pointer (segfault);
            # librdkafka cuts the name at a NUL.
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
    """One that is listed as changed will be read as escaped, and between two stands a comma."""
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
    """What `foreign` returns; `otherwise` where it raises.

    For the methods of users' objects: an exception whose `__str__` fails still needs a dead letter.
    """
    try:
        return foreign()
    except Exception:  # noqa: BLE001  (a user's __str__ may raise anything; see above)
        return otherwise


def valid_unicode(text: str) -> str:
    """`text` with each lone surrogate replaced by a question mark."""
    return text.encode("utf-8", "replace").decode()


def first_bytes(text: str, limit_bytes: int) -> str:
    """The start of `text` that fits into `limit_bytes` of UTF-8, cut between two characters."""
    # Cut the characters first: a text of 100 MB is not encoded for the sake of one KiB.
    encoded = text[:limit_bytes].encode("utf-8", "replace")
    return encoded[:limit_bytes].decode("utf-8", "ignore")


def one_line(text: str) -> str:
    """`text` with each control character and line break escaped as in a Python literal.

    So that nobody who can choose a text writes a log line of his own, or moves a cursor.
    """
    return text if text.isprintable() else "".join(map(_printable, text))


def _printable(character: str) -> str:
    if character.isprintable():
        return character
    return character.encode("unicode_escape").decode()


def whole_number(content: bytes) -> int | None:
    """The number that `content` is as decimal digits; None for anything else, or beyond 64 bits.

    Stricter than `int`, which also takes `1_000`, ` 1 ` and other scripts' digits, and which
    raises for what is longer than 4300 digits.
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
    """An exception as text. `message` or `stack` is None where it was left out."""

    type: str
    message: str | None
    stack: str | None


def describe(error: BaseException) -> ErrorText:
    """`error` as text: type and message of at most 1 KiB each, stack of at most 8 KiB.

    The stack reads as Python prints one, the causes first and `error` last. Where it is too long,
    what is furthest from the raise goes; of each traceback the 20 frames nearest to it stay.
    """
    return ErrorText(_type_name(error), _message(error), _stack(error))


def brief(error: BaseException) -> str:
    """`error` in one line of at most 1 KiB: what events and logs say of it."""
    unspoken = f"<{_type_name(error)}, whose __repr__ raised an exception>"
    text = first_bytes(guarded(lambda: repr(error), otherwise=unspoken), MESSAGE_LIMIT_BYTES)
    return first_bytes(one_line(text), MESSAGE_LIMIT_BYTES)


def leaves(error: BaseException) -> Iterator[BaseException]:
    """The errors in a group, each once, however deeply nested; or `error`, if it is no group.

    Not by recursion: a retry that wraps what it caught once more each time is thousands deep.
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
    """Frames and lines as Python prints them, each cut: a long message must not push out frames."""
    # A negative limit keeps the last frames, those nearest to the raise.
    lines = guarded(
        lambda: [*TracebackException.from_exception(error, limit=-_FRAMES_LIMIT).format()],
        otherwise=["<the traceback cannot be formatted>"],
    )
    cut = (first_bytes(line, MESSAGE_LIMIT_BYTES) for line in lines)
    return [line if line.endswith("\n") else line + "\n" for line in cut]
