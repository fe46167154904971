"""A form selects what it says, and nothing where a field makes no sense."""

import pytest

from linear_retry.console.stored.forms import (
    FIELDS,
    FormError,
    dead_letter_filter,
    given,
    message_filter,
    number_of,
    place,
    place_text,
    time_ms,
)
from linear_retry.store.listing.filters import DeadLetterFilter, MessageFilter, Place

_FORM = {
    "destination": "orders",
    "group": "billing",
    "id": "a-1",
    "key": "kü",
    "error": "refused",
    "since": "2026-11-21T10:00",
    "until": "",
    "other": "x",
}
_COMMON = {
    "destination": "orders",
    "group_id": "billing",
    "retry_id": "a-1",
    "key": b"k\xc3\xbc",
    "error": "refused",
    "since_ms": 1_795_255_200_000,
}


def test_each_field_is_a_condition() -> None:
    """An empty one is none; times are UTC."""
    held = MessageFilter(service="scheduler", is_held=True, **_COMMON)  # type: ignore[arg-type]
    assert held == message_filter("scheduler", _FORM | {"held": "on"})
    dead = DeadLetterFilter(service="outbox", reason="unreadable", **_COMMON)  # type: ignore[arg-type]
    assert dead == dead_letter_filter("outbox", _FORM | {"reason": "unreadable"})
    assert MessageFilter(service="scheduler") == message_filter(
        "scheduler", dict.fromkeys(FIELDS, "")
    )


def test_links_keep_the_fields() -> None:
    """Those of the form that are not empty, and no others."""
    assert {"destination", "group", "id", "key", "error", "since"} == given(_FORM).keys()


@pytest.mark.parametrize("text", ["-1", "", "1e3", "٣", str(2**63), "9" * 5000])
def test_what_is_no_number(text: str) -> None:
    """It is refused in one short sentence."""
    with pytest.raises(FormError, match="is no number; follow the links") as found:
        number_of(text)
    assert 100 > len(str(found.value))


@pytest.mark.parametrize("text", ["yesterday", "2026-13-01", "0001-01-01", "1" * 5000])
def test_what_is_no_time(text: str) -> None:
    """It is refused: as no condition it would select everything."""
    with pytest.raises(FormError, match="is not a time; write it as 2026-11-21T10:00, in UTC"):
        message_filter("scheduler", {"since": text})


def test_times_may_name_their_zone() -> None:
    """Without one they are UTC."""
    assert time_ms("2026-11-21T10:00") == time_ms("2026-11-21T12:00+02:00")


def test_the_place_of_a_page_is_read_as_written() -> None:
    """And the first page needs none."""
    found = Place(1_795_255_200_000, 7)
    assert (found, None) == (place(place_text(found)), place(""))
