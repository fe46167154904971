"""Each guarantee sees what breaks it, and only that."""

from datetime import UTC, datetime

import pytest

from linear_retry import Event, events
from linear_retry.scope import Scope
from linear_retry.testing import (
    Committed,
    Crashed,
    Disturbed,
    Entry,
    Idle,
    LettersWithinLimit,
    Liveness,
    NothingLost,
    NothingWhileOpen,
    OnlyWhileOwned,
    StateSize,
    broken,
)
from tests.testing.logs import (
    P0,
    P1,
    appended,
    assigned,
    attempt,
    begun,
    closed,
    committed,
    emitted,
    guarantees,
    letter,
    life,
    opened,
    revoked,
    stays_open,
    stopped,
    unsent,
)
from tests.testing.nothing_late import NothingLate
from tests.testing.within_time import WithinTime

BOTH = (attempt(1, 0, P1), attempt(1, 1, P1))
"""The second partition's two messages."""

_RETRIED = [*attempt(1, 0, outcome="failed"), opened(1, 0), *attempt(2, 0), closed(2)]
_EXHAUSTED = [
    *attempt(1, 0, outcome="failed"),
    opened(1, 0),
    *attempt(2, 0, outcome="failed"),
    stays_open(2, 0, 2),
    *attempt(3, 0, outcome="failed"),
    letter(3, 0, 3),
    closed(3),
]

HOLD = {
    "nothing happens": [],
    "two have it at once, and the next owner begins where the second was": [
        *life(attempt(1, 0), attempt(1, 1), *BOTH)[:-3],
        assigned(2, P0, member="two"),
        Committed(2, "one", {P0: 2}),
        revoked(2),
        stopped(2),
        *attempt(2, 0, member="two"),
        Committed(3, "two", {P0: 1}),
        revoked(3, P0, member="two"),
        stopped(3, "two"),
        assigned(3, member="three"),
        *attempt(4, 1, member="three"),
        Committed(4, "three", {P0: 1}),
        *attempt(4, 2, member="three"),
        committed(5, 3, 2),
        stopped(5, "three"),
    ],
    "all are done": life(attempt(1, 0), attempt(1, 1), attempt(1, 2), *BOTH),
    "one is retried": life(_RETRIED, attempt(2, 1), attempt(2, 2), *BOTH),
    "one is exhausted": life(_EXHAUSTED, attempt(3, 1), attempt(3, 2), *BOTH),
    "one is permanent": life(
        attempt(1, 0, outcome="failed"),
        letter(1, 0, 1, reason="permanent"),
        attempt(1, 1),
        attempt(1, 2),
        *BOTH,
    ),
    "its letter has to wait": life(
        attempt(1, 0, outcome="failed"),
        unsent(1, 0),
        letter(2, 0, 1, reason="permanent"),
        closed(2),
        attempt(2, 1),
        attempt(2, 2),
        *BOTH,
    ),
    "a held one is revoked, and another probes": life(
        attempt(1, 0, outcome="failed"),
        opened(1, 0, 10),
        revoked(2, P0),
        attempt(11, 0, P1),
        closed(11),
        attempt(11, 1, P1),
        assigned(11, P0),
        attempt(11, 0),
        attempt(11, 1),
        attempt(11, 2),
        end_s=12,
    ),
    "it took time to stand still, and another probes": life(
        attempt(1, 0, outcome="failed"),
        opened(3, 0, 10),
        revoked(4, P0),
        attempt(11, 0, P1),
        closed(11),
        attempt(11, 1, P1),
        assigned(11, P0),
        attempt(11, 0),
        attempt(11, 1),
        attempt(11, 2),
        end_s=12,
    ),
    "owners before could not send its letter": life(
        opened(1, 0, failures=5),
        attempt(2, 0, outcome="failed"),
        letter(2, 0, 6),
        closed(2),
        attempt(2, 1),
        attempt(2, 2),
        *BOTH,
    ),
    "an operator wants it at once": life(
        attempt(1, 0, outcome="failed"),
        opened(1, 0, 10),
        emitted(2, events.RetriedNow(opened(1, 0).event.scope, *P0, 0, 1, 9.0)),  # type: ignore[union-attr]  # a CircuitOpened
        attempt(2, 0),
        closed(2),
        attempt(2, 1),
        attempt(2, 2),
        *BOTH,
    ),
    "handled twice, as it went and came back": life(
        attempt(1, 0),
        revoked(1),
        assigned(1),
        attempt(1, 0),
        attempt(1, 1),
        attempt(1, 2),
        *BOTH,
    ),
    "handled twice, as a member crashed": [
        *life(attempt(1, 0))[:-3],
        assigned(2, member="two"),
        *attempt(2, 0, member="two"),
        *attempt(2, 1, member="two"),
        *attempt(2, 2, member="two"),
        *attempt(2, 0, P1, member="two"),
        *attempt(2, 1, P1, member="two"),
        committed(3, 3, 2),
        stopped(3, "two"),
    ],
    "retention was faster, and it was said": life(emitted(1, events.DataLost(*P0, 0, 3)), *BOTH),
    "a circuit is open for long, and then again": life(
        *BOTH,
        attempt(1, 0, outcome="failed"),
        opened(1, 0, 60),
        attempt(62, 0, outcome="failed"),
        stays_open(62, 0, 2, 60),
        attempt(123, 0),
        closed(123),
        attempt(124, 1),
        attempt(125, 2),
        end_s=126,
    ),
    "a letter is acknowledged as its partition goes": life(
        attempt(1, 0, outcome="failed"),
        revoked(1, P0),
        letter(1, 0, 1, reason="permanent"),
        assigned(2, P0),
        attempt(2, 1),
        attempt(2, 2),
        *BOTH,
    ),
    "handled before it is written down to be there": [
        assigned(0),
        *attempt(1, 0),
        *appended(2),
        *[entry for part in (*BOTH, attempt(2, 1), attempt(2, 2)) for entry in part],
        committed(20, 3, 2),
        stopped(20),
    ],
    "a handler takes its time": life(
        begun(1, 0),
        attempt(60, 0)[1:],
        attempt(61, 1),
        attempt(61, 2),
        attempt(62, 0, P1),
        attempt(62, 1, P1),
        end_s=70,
    ),
    "the broker is down for long": life(
        Disturbed(0, "", "broker down", over=False),
        Disturbed(60, "", "broker down", over=True),
        attempt(61, 0),
        attempt(61, 1),
        attempt(61, 2),
        attempt(61, 0, P1),
        attempt(61, 1, P1),
        end_s=62,
    ),
    "a member dies, and nobody has its partitions for long": [
        *life(attempt(1, 0))[:-3],
        Crashed(2, "one"),
        assigned(60, member="two"),
        *attempt(61, 1, member="two"),
        *attempt(61, 2, member="two"),
        *attempt(61, 0, P1, member="two"),
        *attempt(61, 1, P1, member="two"),
        committed(62, 3, 2),
        stopped(62, "two"),
    ],
    "an answer comes after the next owner's, and after coming back": life(
        attempt(1, 0),
        revoked(2, P0),
        assigned(2, P0, member="two"),
        attempt(2, 1, member="two"),
        Committed(2, "two", {P0: 2}),
        Committed(3, "one", {P0: 1}),
        revoked(3, P0, member="two"),
        assigned(3, P0),
        Committed(3, "one", {P0: 1}),
        attempt(4, 2),
        Committed(4, "one", {P0: 3}),
        *BOTH,
    ),
    "state is kept in bounds": life(
        attempt(1, 0), attempt(1, 1), attempt(1, 2), *BOTH, StateSize(2, "one", 3, 3)
    ),
}

BROKEN: dict[str, tuple[str, list[Entry], list[int], str]] = {
    "overtaken": (
        "InOrder",
        life(attempt(1, 0), attempt(1, 2), attempt(1, 1), *BOTH),
        [6, 7, 8],
        "orders[0]@2 was attempted before 1 was done",
    ),
    "never attempted": (
        "NothingLost",
        [*life(attempt(1, 0), attempt(1, 1), *BOTH)[:-3], committed(5, 2, 2), stopped(5)],
        [14],
        "orders[0]: never done: [2] (1 in all)",
    ),
    "never committed": (
        "NothingLost",
        [*life(attempt(1, 0), attempt(1, 1), attempt(1, 2), *BOTH)[:-3], committed(5, 2, 2)],
        [16],
        "orders[0]: done up to 2, committed up to 2",
    ),
    "early": (
        "NothingEarly",
        life(
            attempt(1, 0, outcome="failed"),
            opened(1, 0),
            attempt(1.5, 0),
            closed(2),
            attempt(2, 1),
            attempt(2, 2),
            *BOTH,
        ),
        [7, 8, 9],
        "orders[0]@0 was attempted 0.500000 s early by one",
    ),
    "another while open": (
        "NothingWhileOpen",
        life(
            attempt(1, 0, outcome="failed"),
            opened(1, 0),
            attempt(1.5, 0, P1),
            attempt(2, 0),
            closed(2),
            attempt(2, 1),
            attempt(2, 2),
            attempt(2, 1, P1),
        ),
        [8, 9],
        "orders[1]@0 was attempted while the circuit of orders[0]@0 was open in one",
    ),
    "attempted though only its letter is to be sent": (
        "NothingWhileOpen",
        life(
            attempt(1, 0, outcome="failed"),
            unsent(1, 0),
            attempt(2, 0, outcome="failed"),
            letter(2, 0, 2, reason="permanent"),
            closed(2),
            attempt(2, 1),
            attempt(2, 2),
            *BOTH,
        ),
        [8, 9],
        "orders[0]@0 was attempted while the circuit of its letter was open in one",
    ),
    "opened twice": (
        "NothingWhileOpen",
        life(
            attempt(1, 0, outcome="failed"),
            opened(1, 0),
            opened(1, 0),
            attempt(2, 0),
            closed(2),
            attempt(2, 1),
            attempt(2, 2),
            *BOTH,
        ),
        [8, 9],
        "the circuit of consumer opened, though it was open",
    ),
    "committed too early": (
        "CommittedOnlyDone",
        life(attempt(1, 0), committed(1, 2, 0), attempt(1, 1), attempt(1, 2), *BOTH),
        [7, 8],
        "orders[0] is committed up to 2, 1 is not done",
    ),
    "committed backwards": (
        "CommittedOnlyDone",
        life(
            attempt(1, 0),
            attempt(1, 1),
            Committed(1, "one", {P0: 2}),
            Committed(2, "one", {P0: 1}),
            attempt(2, 2),
            *BOTH,
        ),
        [10, 11],
        "orders[0] was committed up to 2, then up to 1",
    ),
    "attempted though revoked": (
        "OnlyWhileOwned",
        life(attempt(1, 0), revoked(1, P0), attempt(1, 1), assigned(1, P0), attempt(1, 2), *BOTH),
        [8, 9],
        "orders[0]@1 was attempted by one, which does not own it",
    ),
    "attempted though another's": (
        "OnlyWhileOwned",
        life(attempt(1, 0, member="two"), attempt(1, 1), attempt(1, 2), *BOTH),
        [6],
        "orders[0]@0 was attempted by two, which does not own it",
    ),
    "committed though another's": (
        "OnlyWhileOwned",
        life(attempt(1, 0), Committed(1, "two", {P0: 1}), attempt(1, 1), attempt(1, 2), *BOTH),
        [8],
        "an offset of ('orders', 0) was committed by two, which does not own it",
    ),
    "handled twice": (
        "BoundedDuplicates",
        life(attempt(1, 0), attempt(1, 1), attempt(1, 0), attempt(1, 2), *BOTH),
        [7, 8, 9, 10],
        "orders[0]@0 was attempted again, though done in this ownership by one",
    ),
    "attempted again after its letter": (
        "BoundedDuplicates",
        life(
            attempt(1, 0, outcome="failed"),
            letter(1, 0, 1, reason="permanent"),
            attempt(1, 0),
            attempt(1, 1),
            attempt(1, 2),
            *BOTH,
        ),
        [8, 9],
        "orders[0]@0 was attempted again, though done in this ownership by one",
    ),
    "stands still": (
        "Liveness",
        life(
            attempt(1, 0),
            attempt(1, 1),
            *BOTH,
            attempt(20, 2),
            end_s=20,
        ),
        [9, 14],
        "orders[0] was blocked for 19.000 s in one, which no open circuit paused; 2 is not done",
    ),
    "its circuit is never probed": (
        "Liveness",
        life(
            *BOTH,
            attempt(1, 0, outcome="failed"),
            opened(1, 0, 60),
            attempt(75, 0),
            closed(75),
            attempt(75, 1),
            attempt(75, 2),
            end_s=75,
        ),
        [12, 13],
        "orders[0] was blocked for 14.000 s in one, after retry_at; 0 is not done",
    ),
    "dead-lettered too early": (
        "DeadLetteredOnlyWhenDue",
        life(
            attempt(1, 0, outcome="failed"),
            opened(1, 0),
            attempt(2, 0, outcome="failed"),
            letter(2, 0, 2),
            closed(2),
            attempt(2, 1),
            attempt(2, 2),
            *BOTH,
        ),
        [7, 8, 9, 10, 11],
        "orders[0]@0 was exhausted after 2 failures, in one",
    ),
    "exhausted by the failures of an owner before, and attempted again": (
        "DeadLetteredOnlyWhenDue",
        life(
            opened(1, 0, failures=5),
            attempt(2, 0, outcome="failed"),
            stays_open(2, 0, 6),
            attempt(3, 0, outcome="failed"),
            letter(3, 0, 7),
            closed(3),
            attempt(3, 1),
            attempt(3, 2),
            *BOTH,
        ),
        [6, 7, 8, 9, 10, 11, 12],
        "orders[0]@0 was exhausted after 7 failures, in one",
    ),
    "dead-lettered without a failure": (
        "DeadLetteredOnlyWhenDue",
        life(letter(1, 0, 1, reason="permanent"), attempt(1, 1), attempt(1, 2), *BOTH),
        [6],
        "orders[0]@0 has a dead letter, and no attempt of it has failed, in one",
    ),
    "dead-lettered for the failure of an ownership before": (
        "DeadLetteredOnlyWhenDue",
        life(
            attempt(1, 0, outcome="failed"),
            revoked(1, P0),
            assigned(1, P0),
            attempt(1, 0, P1),
            letter(1, 0, 1, reason="permanent"),
            attempt(1, 1),
            attempt(1, 2),
            attempt(1, 1, P1),
        ),
        [12],
        "orders[0]@0 has a dead letter, and no attempt of it has failed, in one",
    ),
    "failures miscounted": (
        "DeadLetteredOnlyWhenDue",
        life(
            attempt(1, 0, outcome="failed"),
            letter(1, 0, 2, reason="permanent"),
            attempt(1, 1),
            attempt(1, 2),
            *BOTH,
        ),
        [7, 8],
        "orders[0]@0 has a dead letter of 2 failures, and 1 were seen, in one",
    ),
    "the next owner commits less": (
        "CommittedOnlyDone",
        [
            *life(attempt(1, 0), attempt(1, 1), attempt(1, 2), *BOTH)[:-3],
            Committed(2, "one", {P0: 3, P1: 2}),
            revoked(2),
            stopped(2),
            assigned(3, member="two"),
            Committed(4, "two", {P0: 2}),
            committed(5, 3, 2),
            stopped(5, "two"),
        ],
        [16, 17, 19, 20],
        "orders[0] was committed up to 3 by one, then by two, who was given it after that, up to 2",
    ),
    "attempted by one that died": (
        "OnlyWhileOwned",
        [
            *life(attempt(1, 0), attempt(1, 1), *BOTH)[:-3],
            Crashed(2, "one"),
            *attempt(3, 2),
            committed(5, 3, 2),
        ],
        [14, 15],
        "orders[0]@2 was attempted by one, which does not own it",
    ),
    "more and more state": (
        "BoundedState",
        life(attempt(1, 0), attempt(1, 1), attempt(1, 2), *BOTH, StateSize(2, "one", 4, 3)),
        [16],
        "one keeps 4 entries, at most 3 may be",
    ),
}


@pytest.mark.parametrize("log", [pytest.param(log, id=name) for name, log in HOLD.items()])
def test_what_may_happen_breaks_nothing(log: list[Entry]) -> None:
    """Every guarantee holds where the consumer does as it should, whatever happens to it."""
    chosen = [one for one in guarantees() if log or not isinstance(one, NothingLost)]
    assert [] == list(map(str, broken(log, chosen)))


@pytest.mark.parametrize(
    ("guarantee", "log", "shown", "text"),
    [pytest.param(*case, id=name) for name, case in BROKEN.items()],
)
def test_what_breaks_one_breaks_only_that(
    guarantee: str, log: list[Entry], shown: list[int], text: str
) -> None:
    """The violation names its guarantee, and shows no more of the log than it needs."""
    (violation,) = broken(log, guarantees())
    assert (guarantee, text) == (violation.guarantee, violation.text)
    assert [log[index] for index in shown] == list(violation.excerpt)


def test_letters_in_a_row_are_counted() -> None:
    """One more than the limit without a success between them is one too many."""
    letters = [
        entry
        for at_s in (1, 2, 3)
        for entry in [
            *attempt(at_s, at_s - 1, outcome="failed"),
            letter(at_s, at_s - 1, 1, reason="permanent"),
        ]
    ]
    log = life(letters, *BOTH)
    assert [] == broken(log, guarantees(limit=3))
    (violation,) = broken(log, guarantees(limit=2))
    assert "LettersWithinLimit" == violation.guarantee
    assert (log[8], log[14]) == (violation.excerpt[0], violation.excerpt[-1])


def test_a_success_or_an_operator_ends_the_row() -> None:
    """What comes after is the first again."""
    row: list[Entry] = [letter(1, 0, 1), letter(1, 1, 1, reason="given-up"), letter(1, 2, 1)]
    assert [] == broken(row, [LettersWithinLimit(1)])
    row = [letter(1, 0, 1), *attempt(1, 1), letter(1, 2, 1)]
    assert [] == broken(row, [LettersWithinLimit(1)])


def test_letters_that_are_found_after_a_death_are_in_no_row() -> None:
    """It had learned of none of them, or it would have sent no more; who lives on counts again."""
    begun = attempt(3, 3, outcome="failed")
    row: list[Entry] = [letter(1, 0, 1), Crashed(2, "one"), letter(2, 1, 1), letter(2, 2, 1)]
    assert [] == broken([*row, *begun, letter(4, 3, 1)], [LettersWithinLimit(1)])
    log = [*row, *begun, letter(4, 3, 1), letter(5, 4, 1)]
    assert 1 == len(broken(log, [LettersWithinLimit(1)]))


# Of another partition, and nobody answered for a while.
_BURIED = [*attempt(0.5, 0, P1, "failed"), Idle(9, "one", 8), letter(9, 0, 1, P1)]


@pytest.mark.parametrize(
    ("log", "late"),
    [
        ([opened(0, 0), begun(1.01, 0)], 0),
        ([opened(0, 0), begun(1.04, 0)], 1),
        ([opened(0, 0), begun(0.5, 0, P1), *attempt(9, 0, P1)[1:], begun(9, 0)], 0),
        ([opened(0, 0), begun(0.5, 0, P1), *attempt(9, 0, P1)[1:], begun(9.5, 0)], 1),
        ([opened(0, 0), Idle(9, "one", 0.5), begun(9, 0)], 0),
        ([opened(0, 0), Idle(9, "one", 1.5), begun(9, 0)], 1),
        ([opened(0, 0), Idle(3, "one", 2), Idle(9, "one", 4), begun(9, 0)], 1),
        ([opened(0, 0), *_BURIED[:-1], begun(9, 0)], 1),
        ([opened(0, 0), *_BURIED, begun(9, 0)], 0),
        ([opened(0, 0), StateSize(9, "one", 1, 1), begun(9, 0)], 1),
        ([opened(0, 0), revoked(0.5, P0), begun(9, 0)], 0),
        ([unsent(0, 0), begun(9, 0)], 0),
    ],
)
def test_a_late_probe_is_seen(log: list[Entry], late: int) -> None:
    """Late is what the member had time for; a call in progress, a member that is not there, a
    letter's sending, and a held message that is gone excuse."""
    assert late == len(broken(log, [NothingLate()]))


@pytest.mark.parametrize(
    ("log", "late"),
    [
        ([opened(1, 0), stays_open(2, 0, 2, 4.0)], 0),
        ([opened(1, 0), stays_open(2, 0, 2, 4.1)], 1),
        ([opened(1, 0), stays_open(2, 0, 2), stays_open(5.5, 0, 3)], 1),
        ([stays_open(1, 0, 1), stays_open(5.5, 0, 2)], 1),
        ([opened(1, 0), revoked(2), stays_open(5, 0, 1), stays_open(6, 0, 2)], 0),
        ([opened(1, 0), stays_open(5.5, 1, 2)], 0),
        ([stays_open(5.5, 0, 2)], 0),
    ],
)
def test_a_wait_beyond_max_elapsed_is_seen(log: list[Entry], late: int) -> None:
    """It counts from the message's first failure in the ownership, by whichever event that is."""
    assert late == len(broken(log, [WithinTime(5.0)]))


def test_what_is_removed_before_anybody_reads_it_is_not_waited_for() -> None:
    """Compaction tells nobody, nor does retention where no offset was committed: a partition that
    was read to its end was said to stand still."""
    log = [*appended(), assigned(0), *attempt(1, 2), *attempt(1, 1, P1), stopped(60)]
    assert [] == broken(log, [Liveness()])


_UNTIL = datetime(2026, 1, 1, tzinfo=UTC)
_ORDERS = (
    (
        events.PausedByHand(Scope("orders"), "ops@desk", "it moves", _UNTIL),
        events.PauseEnded(Scope("orders"), True, 59.0),
    ),
    (events.HeldByGroup("two", "refused", _UNTIL), events.GroupHoldEnded(True, 59.0)),
)


@pytest.mark.parametrize("order", _ORDERS, ids=["operator", "group"])
def test_what_is_paused_by_order_is_waited_for(order: tuple[Event, Event]) -> None:
    """By an operator, or as another member attempts for the group; but not for ever afterwards."""
    begin, end = emitted(1, order[0]), emitted(60, order[1])
    held = [*appended(), assigned(0), opened(0.5, 0), begin]
    done = [*attempt(65, 0), *attempt(65, 1), *attempt(65, 2), *attempt(65, 0, P1)]
    assert [] == broken([*held, end, *done, *attempt(66, 1, P1)], [Liveness()])
    (late, *_) = broken([*held, end, begun(75, 0)], [Liveness()])
    assert "orders[0] was blocked for 15.000 s in one" in str(late)


def test_a_violation_is_a_text_to_read() -> None:
    """The guarantee, the sentence, and one line for each entry of the stretch."""
    log = [*attempt(1, 0, outcome="failed"), opened(1, 0), begun(1.5, 0, P1)]
    (violation,) = broken(log, [NothingWhileOpen()])
    first, *lines = str(violation).splitlines()
    assert (
        "NothingWhileOpen: orders[1]@0 was attempted while the circuit of orders[0]@0 was open in "
        "one" == first
    )
    assert ["1.000 one: CircuitOpened", "1.500 one: orders[1]@0 is attempted"] == [
        lines[0].strip()[:24],
        lines[1].strip(),
    ]


def test_of_many_violations_the_last_show_no_excerpt() -> None:
    """So that a long log with thousands of them is not cut out thousands of times."""
    log: list[Entry] = [assigned(0), revoked(1), *(begun(2, offset) for offset in range(150))]
    found = broken(log, [OnlyWhileOwned()])
    assert 150 == len(found)
    assert [(log[1], *log[2:102]), ()] == [one.excerpt for one in found[99:101]]


def test_a_long_stretch_is_cut_in_the_middle() -> None:
    """Thirty lines are shown: how it began, and how it ended."""
    log = [*appended(), assigned(0), *[Committed(1, "", {P0: 0})] * 90, begun(1, 1), stopped(2)]
    (violation,) = broken([opened(0, 0), *log], [NothingWhileOpen()])
    lines = str(violation).splitlines()
    assert 1 + 30 + 1 == len(lines)
    assert "entries more" in lines[16]
