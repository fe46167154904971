"""What is written to the control topic is read back, and whatever else is there is refused."""

import json
from typing import Any, get_args
from uuid import uuid4

import pytest
from hypothesis import given
from hypothesis import strategies as st

from linear_retry.records.control import (
    COMMAND_TTL_MS,
    Answer,
    AnswerName,
    Command,
    CommandName,
    Garbled,
    encode,
    read_control,
)

_IDS = st.uuids().map(str)
_TEXTS = st.text(st.characters().filter(str.isprintable), min_size=1, max_size=255)
_WHOLE = st.integers(0, 2**63 - 1)
_COMMANDS = st.builds(
    Command,
    _IDS,
    st.sampled_from(get_args(CommandName)),
    *(_TEXTS, _TEXTS, _WHOLE, _WHOLE, _TEXTS, _WHOLE, st.none() | _TEXTS),
    *(st.integers(1, 9), _TEXTS, st.booleans(), st.integers(1, 9), st.none() | _TEXTS),
)
_TO_ALL = st.builds(
    Command,
    _IDS,
    st.sampled_from([name for name in get_args(CommandName) if name != "give-up"]),
    *(_TEXTS, st.none(), st.none(), st.none(), _TEXTS, _WHOLE, st.none() | _TEXTS),
    *(
        st.none() | st.integers(1, 9),
        _TEXTS,
        st.booleans(),
        st.integers(1, 2**63 - 1),
        st.none() | _TEXTS,
    ),
)
_ANSWERS = st.builds(
    Answer,
    _IDS,
    _TEXTS,
    st.sampled_from(get_args(AnswerName)),
    _WHOLE,
    st.booleans(),
    *(_TEXTS, _WHOLE, _WHOLE, st.none() | _WHOLE, st.none() | _WHOLE, st.none() | _TEXTS),
)


def _command(at_ms: int = 1_767_225_600_000) -> Command:
    return Command(str(uuid4()), "retry", "billing", "orders", 3, 812, "ops@desk", at_ms)


@given(st.one_of(_COMMANDS, _TO_ALL, _ANSWERS))
def test_what_is_written_is_read_back(problem: Command | Answer) -> None:
    """`read_control` is the inverse of `encode`, whatever the names are made of."""
    assert problem == read_control(encode(problem))


def test_what_a_command_looks_like() -> None:
    """As docs/operations/held-messages.md has it."""
    command_id = "0b8e1c0e-7c38-4d53-8d1a-6a9a6a0c7f11"
    command = Command(command_id, "give-up", "billing", "orders", 3, 812, "ops@desk", 17)
    assert (
        b'{"v":1,"command_id":"0b8e1c0e-7c38-4d53-8d1a-6a9a6a0c7f11","command":"give-up",'
        b'"group":"billing","topic":"orders","partition":3,"offset":812,"by":"ops@desk","at_ms":17}'
    ) == encode(command)


@given(st.binary())
def test_garbled_content_raises_nothing(value: bytes) -> None:
    """Whatever is in the topic, reading goes on."""
    assert isinstance(read_control(value), Garbled)


@given(st.data())
def test_what_is_nearly_right_raises_nothing(data: st.DataObject) -> None:
    """Any field replaced by any JSON: read, or refused with a reason that is safe to print."""
    problem = json.loads(encode(data.draw(st.one_of(_COMMANDS, _TO_ALL, _ANSWERS))))
    scalars = st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=3)
    problem[data.draw(st.sampled_from(sorted(problem)))] = data.draw(
        scalars | st.lists(scalars, max_size=2)
    )
    found = read_control(json.dumps(problem).encode())
    assert not isinstance(found, Garbled) or found.reason.isprintable()


@pytest.mark.parametrize(
    "value",
    [None, b"null", b"[" * 10_000, b" " * 20_000 + b"{}", b'{"v":true}'],
)
def test_what_breaks_parsers_is_refused(value: bytes | None) -> None:
    """A tombstone, deep nesting, what is too long: a reason, not an exception."""
    assert isinstance(read_control(value), Garbled)


@pytest.mark.parametrize(
    ("changes", "reason"),
    [
        ({"v": 2}, "v is 2: this release reads 1"),
        (
            {"command": "drain"},
            "command is 'drain': one of retry, give-up, lift-limit, reload, open, close, outage, "
            "recovery",
        ),
        ({"command_id": "812"}, "command_id is '812': a UUID"),
        ({"offset": -1}, "offset is -1: a whole number from 0"),
        ({"partition": True}, "partition is True: a whole number from 0"),
        ({"by": "ops\x1b[2J"}, "by is 'ops\\x1b[2J': a printable text of at most 255 characters"),
        ({"by": ""}, "by is '': a printable text of at most 255 characters"),
        ({"group": None}, "group is None: a printable text of at most 255 characters"),
        (
            {"command": "give-up", "topic": None},
            "topic is None: a printable text of at most 255 characters",
        ),
        (
            {"command": "give-up", "topic": None, "partition": None, "offset": None},
            "topic is None: a give-up must name one message",
        ),
        (
            {"command": "lift-limit"},
            "reason is None: lifting a limit needs a reason, and at least one letter",
        ),
        (
            {"command": "open", "for_s": 60},
            "reason is None: a pause needs a reason, and at least one second",
        ),
        (
            {"command": "open", "for_s": 0, "reason": "r"},
            "reason is 'r': a pause needs a reason, and at least one second",
        ),
        (
            {"command": "outage"},
            "for_s is None: an outage is announced for some seconds, or for none",
        ),
        ({"last": 1}, "last is 1: true or false"),
        ({"answer": "maybe"}, "member is None: a printable text of at most 255 characters"),
    ],
)
def test_the_reason_names_the_field(changes: dict[str, Any], reason: str) -> None:
    """Whoever has written it finds out what is wrong."""
    problem = json.loads(encode(_command())) | changes
    assert Garbled(reason) == read_control(json.dumps(problem).encode())


def test_later_fields_are_passed_over() -> None:
    """A later release may say more under the same version."""
    command = _command()
    problem = json.loads(encode(command)) | {"ticket": "OPS-17"}
    assert command == read_control(json.dumps(problem).encode())


@pytest.mark.parametrize(
    ("age_ms", "expired"),
    [
        (0, False),
        (COMMAND_TTL_MS, False),
        (COMMAND_TTL_MS + 1, True),
        (-COMMAND_TTL_MS, False),
        (-COMMAND_TTL_MS - 1, True),
    ],
)
def test_a_command_lives_for_a_minute(age_ms: int, expired: bool) -> None:
    """Also one from the future: it would be carried out after each restart until then."""
    assert expired == _command(1_000_000).has_expired(1_000_000 + age_ms)
