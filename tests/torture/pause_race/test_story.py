"""A long log is told shortly, and nothing that differs is lost."""

from __future__ import annotations

from linear_retry import events
from linear_retry.testing import AttemptStarted, Committed, Entry, EventEmitted, Place
from tests.torture.pause_race.story import told

_MANY = tuple(("orders", number) for number in range(300))


def test_of_what_is_alike_the_first_and_the_last_are_told() -> None:
    """And how many there were; what comes between them begins anew."""
    log: list[Entry] = [
        *(AttemptStarted(number, "one", Place("orders", 0, number)) for number in range(10)),
        EventEmitted(10, "one", events.Revoked(_MANY)),
        AttemptStarted(11, "one", Place("orders", 0, 10)),
    ]
    assert [
        "0.000 one: orders[0]@0 is attempted",
        "... 8 more like it ...",
        "9.000 one: orders[0]@9 is attempted",
        "10.000 one: Revoked, 300 partitions",
        "11.000 one: orders[0]@10 is attempted",
    ] == [*told(log)]


def test_hundreds_of_partitions_are_a_number() -> None:
    """Their names would fill the screen."""
    assert ["1.000 one: 300 offsets are committed"] == [
        *told([Committed(1, "one", dict.fromkeys(_MANY, 1))])
    ]
