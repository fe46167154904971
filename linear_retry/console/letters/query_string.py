"""Filters and selections as the query of an address, so that they can be shared and sent on."""

from collections.abc import Mapping
from datetime import UTC, datetime
from urllib.parse import parse_qs, urlencode

from linear_retry.console.letters.conditions import DONE, SHORTEST_TEXT, LetterFilter, Selection
from linear_retry.dlq.letters.letter import State
from linear_retry.records.text import whole_number

_STATES = {"all": (), "done": DONE} | {state.value: (state,) for state in State}
_SECONDS, _MILLISECONDS = 19, 23  # characters of a time in ISO 8601
_TEXTS = {
    "error": "error",
    "pattern": "message",
    "text": "text",
    "not_text": "without",
    "group_id": "group",
    "origin": "origin",
    "not_origin": "not-origin",
    "reason": "reason",
    "name": "id",
}
_COUNT, _EPOCH, _LAST = "count", "epoch", "last"


class UnreadableError(ValueError):
    """A part of the query cannot be read; its text says which, and what is allowed."""


def read_filter(query: Mapping[str, str]) -> LetterFilter:
    """Reads a filter; empty fields count as missing, no state as open. Raises `UnreadableError`."""
    texts = {name: query[field] for name, field in _TEXTS.items() if query.get(field)}
    if "text" in texts and len(texts["text"]) < SHORTEST_TEXT:
        raise UnreadableError(
            f"the text is {texts['text']!r}: it must have at least {SHORTEST_TEXT} characters"
        )
    return LetterFilter(
        **texts,
        key=_bytes(query["key"], "the key") if query.get("key") else None,
        no_key=bool(query.get("no-key")),
        header=_header(query["header"]) if query.get("header") else None,
        since_ms=_time_ms(query, "since"),
        until_ms=_time_ms(query, "until"),
        states=_states(query.get("state") or State.OPEN.value),
    )


def query_of(wanted: LetterFilter) -> dict[str, str]:
    """The inverse of `read_filter`."""
    query = {
        field: value
        for name, field in _TEXTS.items()
        if (value := getattr(wanted, name)) is not None
    }
    if wanted.key is not None:
        query["key"] = key_text(wanted.key)
    if wanted.no_key:
        query["no-key"] = "yes"
    if wanted.header is not None:
        name, value = wanted.header
        query["header"] = f"{name}={key_text(value)}"
    for field, time_ms in (("since", wanted.since_ms), ("until", wanted.until_ms)):
        if time_ms is not None:
            query[field] = datetime.fromtimestamp(time_ms / 1000, UTC).isoformat()[
                : _SECONDS if time_ms % 1000 == 0 else _MILLISECONDS
            ]
    if wanted.states != (State.OPEN,):
        query["state"] = next(text for text, each in _STATES.items() if each == wanted.states)
    return query


def selection_text(selection: Selection) -> str:
    """The selection without its topic, as the text of a form's field."""
    moment = {_COUNT: selection.count, _EPOCH: selection.epoch, _LAST: selection.last_id}
    return urlencode(query_of(selection.filter) | moment)


def read_selection(topic: str, text: str) -> Selection:
    """The inverse of `selection_text`. Raises `UnreadableError`."""
    query = {name: values[-1] for name, values in parse_qs(text).items()}
    return Selection(
        topic,
        read_filter(query),
        _number(query, _COUNT),
        query.get(_EPOCH, ""),
        _number(query, _LAST),
    )


def key_text(key: bytes) -> str:
    """The key as it is typed: text, or `0x` and hexadecimal digits."""
    try:
        text = key.decode()
    except UnicodeDecodeError:
        return f"0x{key.hex()}"
    return text if text.isprintable() and text and not text.startswith("0x") else f"0x{key.hex()}"


def _header(text: str) -> tuple[str, bytes]:
    name, equals, value = text.partition("=")
    if not (name and equals):
        raise UnreadableError(
            f"the header is {text[:40]!r}: it must be a name and a value, such as tenant=acme"
        )
    return name, _bytes(value, "the header's value")


def _bytes(text: str, what: str) -> bytes:
    if not text.startswith("0x"):
        return text.encode("utf-8", "replace")
    try:
        return bytes.fromhex(text[2:])
    except ValueError:
        raise UnreadableError(
            f"{what} is {text[:40]!r}: after 0x there must be pairs of hexadecimal digits"
        ) from None


def _time_ms(query: Mapping[str, str], field: str) -> int | None:
    if not (text := query.get(field)):
        return None
    try:
        moment = datetime.fromisoformat(text)
        utc = moment.replace(tzinfo=moment.tzinfo or UTC).astimezone(UTC)
        return round(utc.timestamp() * 1000)
    except (ValueError, OverflowError):
        raise UnreadableError(
            f"{field} is {text[:40]!r}: it must be a time such as 2026-11-23T18:00, in UTC"
        ) from None


def _states(text: str) -> tuple[State, ...]:
    if text not in _STATES:
        raise UnreadableError(f"the state is {text[:40]!r}: it must be one of {', '.join(_STATES)}")
    return _STATES[text]


def _number(query: Mapping[str, str], field: str) -> int:
    number = whole_number(query.get(field, "").encode())
    if number is None:
        raise UnreadableError(f"the selection lacks its {field}: select the letters once more")
    return number
