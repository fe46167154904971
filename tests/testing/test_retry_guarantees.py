"""Each guarantee of retry topics sees what breaks it, and only that."""

from datetime import UTC, datetime

import pytest

from linear_retry import RetryTopics, events
from linear_retry.kafka import Message
from linear_retry.scope import Scope
from linear_retry.testing import (
    AttemptFinished,
    AttemptStarted,
    Committed,
    Crashed,
    Entry,
    EventEmitted,
    EventLog,
    Guarantee,
    InOnePlace,
    LettersWithinLimit,
    Place,
    RetryHop,
    all_guarantees,
    broken,
)
from linear_retry.testing.event_log import AttemptOutcome
from tests.fake.messages import message
from tests.fake.topic import Record
from tests.testing.logs import P0, appended, assigned, attempt, letter, opened, revoked, stopped

RETRIES = RetryTopics("orders.retry", strategy=[1, 2], limit=None)
R1, R2 = ("orders.retry.1s", 0), ("orders.retry.2s", 0)
_VISIBLE = {P0: range(2), R1: range(1), R2: range(1)}
_ID = "group/0"
_AT = datetime(2026, 1, 1, tzinfo=UTC)


def _guarantees() -> list[Guarantee]:
    return all_guarantees(_VISIBLE, strategy_length=0, retries=RETRIES, alive_within_s=5)


def _sent(
    at_s: float, place: Place, step: int, failures: int, topic: str = "", member: str = "live"
) -> EventEmitted:
    to = topic or f"orders.retry.{step}s"
    event = events.SentToRetry(*place, to, _ID, 1, step, _AT, "down", failures)
    return EventEmitted(at_s, member, event)


def _hop(
    at_s: float,
    step: int,
    outcome: AttemptOutcome = "failed",
    *,
    place: Place | None = None,
    waited_s: float | None = None,
    member: str = "retry",
) -> list[Entry]:
    """An attempt on the retry line, after `step` failures."""
    at = place or Place(*(R1 if step == 1 else R2), 0)
    hop = RetryHop(_ID, 1, 0, step, step, float(step) if waited_s is None else waited_s)
    return [AttemptStarted(at_s, member, at, hop), AttemptFinished(at_s, member, at, outcome)]


_AT_HOME, _IN_R1, _IN_R2 = Place(*P0, 0), Place(*R1, 0), Place(*R2, 0)
_START: list[Entry] = [
    *appended()[:2],
    assigned(0, P0, member="live"),
    assigned(0, R1, R2, member="retry"),
]
_LEAVES: list[Entry] = [
    *attempt(1, 0, P0, "failed", "live"),
    _sent(1, _AT_HOME, 1, 1),
    *attempt(1, 1, P0, "done", "live"),
]
_RETRIED = [*_hop(2, 1), _sent(2, _IN_R1, 2, 2, member="retry")]
_SAVED = [*_hop(4, 2, "done")]
_GIVEN_UP = [
    *_hop(4, 2),
    EventEmitted(
        4,
        "retry",
        events.DeadLettered(*_IN_R2, "dlq", _ID, 1, "exhausted", "down", 3, ()),
    ),
]
_END: list[Entry] = [
    Committed(5, "", {P0: 2, R1: 1, R2: 1}),
    revoked(5, P0, member="live"),
    revoked(5, R1, R2, member="retry"),
    stopped(5, "live"),
    stopped(5, "retry"),
]


def _log(*parts: list[Entry]) -> list[Entry]:
    return [*_START, *(entry for part in parts for entry in part), *_END]


HOLD = {
    "saved by the second retry": _log(_LEAVES, _RETRIED, _SAVED),
    "given up after the last": _log(_LEAVES, _RETRIED, _GIVEN_UP),
    "replayed into the first retry topic": [
        *_log(_LEAVES, _RETRIED, _GIVEN_UP)[:-5],
        AttemptStarted(6, "retry", Place(*R1, 1), RetryHop(_ID, 1, 1, 0, 0, 1.0)),
        AttemptFinished(6, "retry", Place(*R1, 1), "done"),
        Committed(7, "", {P0: 2, R1: 2, R2: 1}),
    ],
    "not a retry, and dead-lettered": _log(
        _LEAVES,
        [
            EventEmitted(
                2,
                "retry",
                events.DeadLettered(*_IN_R1, "dlq", "another", 1, "permanent", "garbled", 1, ()),
            )
        ],
        _hop(3, 1, "done", place=_IN_R2, waited_s=2.0),
    ),
    "killed before its offset was committed, and sent twice": [
        *_START,
        *_LEAVES[:3],
        Crashed(1, "live"),
        assigned(1, P0, member="next"),
        *attempt(1, 0, P0, "failed", "next"),
        _sent(1, _AT_HOME, 1, 1, member="next"),
        *attempt(1, 1, P0, "done", "next"),
        *_hop(2, 1, "done"),
        *_hop(2, 1, "done", place=Place(*R1, 1)),
        *_hop(2, 1, "done", place=_IN_R2, waited_s=2.0),
        Committed(5, "", {P0: 2, R1: 2, R2: 1}),
    ],
    "failed on the retry line, and given up by another": [
        *_START,
        *_LEAVES,
        *_hop(2, 1),
        revoked(2, R1, R2, member="retry"),
        stopped(2, "retry"),
        assigned(2, R1, R2, member="next"),
        EventEmitted(2, "next", events.CircuitOpened(Scope(), *_IN_R1, "down", 1, 1.0, _AT)),
        EventEmitted(
            2, "next", events.DeadLettered(*_IN_R1, "dlq", _ID, 1, "given-up", "down", 2, ())
        ),
        EventEmitted(2, "next", events.CircuitClosed(Scope(), "dead-lettered", 0.0)),
        *_hop(3, 1, "done", place=_IN_R2, waited_s=2.0, member="next"),
        Committed(5, "", {P0: 2, R1: 1, R2: 1}),
    ],
    "revoked on the retry line, and attempted by another": [
        *_START,
        *_LEAVES,
        *_hop(2, 1),
        revoked(2, R1, R2, member="retry"),
        assigned(2, R1, R2, member="next"),
        *_hop(3, 1, waited_s=2.0, member="next"),
        _sent(3, _IN_R1, 2, 2, member="next"),
        *_hop(5, 2, "done", member="next"),
        Committed(5, "", {P0: 2, R1: 1, R2: 1}),
    ],
}

BROKEN: dict[str, tuple[str, list[Entry], str]] = {
    "attempted too early": (
        "RetriedWhenDue",
        _log(_LEAVES, _hop(1.5, 1, waited_s=0.5), _RETRIED[2:], _SAVED),
        "orders.retry.1s[0]@0 was attempted 0.500 s before its delay was over",
    ),
    "a step left out": (
        "WithinSequence",
        _log([*_LEAVES[:2], _sent(1, _AT_HOME, 2, 1), *_LEAVES[3:]], _SAVED),
        "orders[0]@0 took step 2 after step 0, in live",
    ),
    "one step too many": (
        "WithinSequence",
        _log(_LEAVES, _RETRIED, _hop(4, 2), [_sent(4, _IN_R2, 3, 3, R2[0], "retry")]),
        "orders.retry.2s[0]@0 took step 3 of 2, in retry",
    ),
    "too short a wait": (
        "WithinSequence",
        _log(
            _LEAVES,
            [*_hop(2, 1), _sent(2, _IN_R1, 2, 2, R1[0], "retry")],
            _hop(4, 2, "done"),
        ),
        "orders.retry.1s[0]@0 was sent to orders.retry.1s, whose delay is shorter than step 2, in "
        "retry",
    ),
    "another's topic": (
        "WithinSequence",
        _log([*_LEAVES[:2], _sent(1, _AT_HOME, 1, 1, "other.1s"), *_LEAVES[3:]]),
        "orders[0]@0 was sent to other.1s, which is no retry topic, in live",
    ),
    "given up before the last": (
        "WithinSequence",
        _log(
            _LEAVES,
            _hop(2, 1),
            [
                EventEmitted(
                    2,
                    "retry",
                    events.DeadLettered(*_IN_R1, "dlq", _ID, 1, "exhausted", "down", 2, ()),
                ),
                *attempt(2, 0, R2, "done", "retry"),
            ],
        ),
        "orders.retry.1s[0]@0 was exhausted after step 1 of 2, in retry",
    ),
    "in two retry topics": (
        "InOnePlace",
        _log(_LEAVES, _RETRIED, _hop(4, 1, "done", place=_IN_R2, waited_s=2.0)),
        "orders.retry.2s[0]@0 is group/0 by step 1, which is in a retry topic by step 2 already",
    ),
    "handled, and retried all the same": (
        "InOnePlace",
        _log(_LEAVES, _hop(2, 1, "done"), _hop(4, 2, "done")),
        "orders.retry.2s[0]@0 is group/0 by step 2, which is done already",
    ),
    "failures forgotten": (
        "DeadLetteredOnlyWhenDue",
        _log(_LEAVES, [*_hop(2, 1), _sent(2, _IN_R1, 2, 1, member="retry")], _SAVED),
        "orders.retry.1s[0]@0 was sent to retry of 1 failures, and 2 were seen, in retry",
    ),
    "sent to retry, and again": (
        "BoundedDuplicates",
        _log([*_LEAVES[:3], *_LEAVES[2:]], _RETRIED, _SAVED),
        "orders[0]@0 was sent to retry, though done in this ownership by live",
    ),
}


@pytest.mark.parametrize("log", [pytest.param(log, id=name) for name, log in HOLD.items()])
def test_what_may_happen_breaks_nothing(log: list[Entry]) -> None:
    """A retry, a replay, a crash and a rebalance break no guarantee."""
    assert [] == list(map(str, broken(log, _guarantees())))


@pytest.mark.parametrize(
    ("guarantee", "log", "text"),
    [pytest.param(*case, id=name) for name, case in BROKEN.items()],
)
def test_what_breaks_one_is_seen(guarantee: str, log: list[Entry], text: str) -> None:
    """The violation names its guarantee."""
    found = {one.guarantee: one.text for one in broken(log, _guarantees())}
    assert text == found.get(guarantee), found


def test_the_live_line_waits_for_nobody() -> None:
    """Its messages stand still while a handler of the retry line works, and while that waits."""
    log: list[Entry] = [
        *_START,
        *attempt(1, 0, P0, "done", "live"),
        AttemptStarted(2, "retry", _IN_R1, RetryHop(_ID, 1, 0, 1, 1, 1.0)),
        AttemptFinished(9, "retry", _IN_R1, "failed"),
        opened(9, 0, 60),
        *attempt(9, 1, P0, "done", "live"),
    ]
    found = {one.guarantee for one in broken(log, _guarantees())}
    assert {"LiveLineNeverWaits", "Liveness"} <= found


def test_the_retry_lines_own_waits_are_no_standstill() -> None:
    """A message in a retry topic waits for its delay, however long."""
    long = RetryTopics("orders.retry", strategy=[60])
    place = Place("orders.retry.1m", 0, 0)
    log: list[Entry] = [assigned(0, place[:2], member="retry")]
    witness = EventLog(lambda: 0.0, log)
    witness.appended(place[:2], [0])
    log += [AttemptStarted(61, "retry", place), AttemptFinished(61, "retry", place, "done")]
    chosen = all_guarantees({place[:2]: [0]}, strategy_length=0, retries=long, alive_within_s=5)
    assert {"NothingLost"} == {one.guarantee for one in broken(log, chosen)}


def test_messages_that_leave_are_in_one_row_with_letters() -> None:
    """Two retries and a letter are three; each has a limit of its own."""
    row: list[Entry] = [_sent(1, _AT_HOME, 1, 1), _sent(1, _AT_HOME, 1, 1)]
    row = [*row, letter(2, 1, 1), letter(2, 2, 1)]
    assert [] == broken(row[:2], [LettersWithinLimit(0, retry_limit=2)])
    assert 1 == len(broken(row[:2], [LettersWithinLimit(None, retry_limit=1)]))
    same = [_sent(1, _AT_HOME, 1, 1, member="one"), letter(2, 1, 1)]
    assert 1 == len(broken(same, [LettersWithinLimit(1, retry_limit=2)]))


def test_messages_that_a_recovery_takes_have_a_limit() -> None:
    """Of `Recovery`: three in a row are one too many for a limit of two."""
    handed = [events.HandedOver(*P0, offset, "id", "down", 1) for offset in range(3)]
    row: list[Entry] = [EventEmitted(1, "one", event) for event in handed]
    assert [] == broken(row, [LettersWithinLimit(0, recovery_limit=3)])
    assert 1 == len(broken(row, [LettersWithinLimit(None, recovery_limit=2)]))


def _message(*headers: tuple[str, bytes]) -> Message:
    """Written into a retry topic two seconds before it is read."""
    return message(R1, Record(7, None, b"value", [*headers], 1000))


def test_an_attempt_says_by_which_hop_its_message_came() -> None:
    """From the headers of a retry; of another record, and of one that is unreadable, nothing."""
    log = EventLog(lambda: 0.0, utc_ms=lambda: 3000)
    retry = (("retry-id", b"me"), ("retry-send-to", b"retry"), ("retry-step", b"2"))
    letter_of_it = (retry[0], ("retry-send-to", b"dead-letter"))
    for headers in (retry, letter_of_it, retry[1:], ()):
        with log.attempting("one", _message(*headers)):
            pass
    hops = [entry.hop for entry in log.entries if isinstance(entry, AttemptStarted)]
    assert [RetryHop("me", 1, 0, 2, 0, 2.0), None, None, None] == hops


def test_who_is_handed_over_is_done() -> None:
    """By the callback of `Recovery`, after the last blocking attempt; once."""
    handed = EventEmitted(1, "live", events.HandedOver(*_AT_HOME, _ID, "down", 1))
    chosen = all_guarantees({P0: range(2)}, strategy_length=0, limit=5)
    log = [
        *_START[:3],
        *attempt(1, 0, P0, "failed", "live"),
        handed,
        *attempt(1, 1, P0, "done", "live"),
        Committed(5, "", {P0: 2}),
    ]
    assert [] == list(map(str, broken(log, chosen)))
    chosen = all_guarantees({P0: range(2)}, strategy_length=1, limit=5)
    found = {one.guarantee for one in broken([*log[:6], handed, *log[6:]], chosen)}
    assert {"BoundedDuplicates", "DeadLetteredOnlyWhenDue"} == found


_RETURNED = EventEmitted(2, "retry", events.ReturnedToSource(*_IN_R1, "orders", _ID, 1, 1))
_BACK = [
    *_START[:2],
    assigned(0, P0, member="live"),
    *attempt(1, 0, P0, "failed", "live"),
    _sent(1, _AT_HOME, 1, 1),
    _RETURNED,
]


def test_who_is_returned_to_its_source_is_attempted_there() -> None:
    """Once by each retry, with the step by which it came."""
    log = [*_BACK, *_hop(3, 1, "done", place=Place(*P0, 1), waited_s=0, member="live")]
    log.append(Committed(5, "", {P0: 2, R1: 1}))
    visible = {P0: range(2), R1: range(1)}
    assert [] == list(
        map(str, broken(log, all_guarantees(visible, strategy_length=0, retries=RETRIES)))
    )


def test_who_is_returned_may_be_done_before_its_reader_has_said_so() -> None:
    """Two threads write the log: the live line may be the quicker. But it is returned once, and
    what is done in a retry topic is not returned."""
    done = _hop(3, 1, "done", place=Place(*P0, 1), waited_s=0, member="live")
    assert [] == broken([*_BACK[:-1], *done, _RETURNED], [InOnePlace()])
    for log in (
        [*_BACK[:-1], *done, _RETURNED, _RETURNED],
        [*_BACK, *done, _RETURNED],
        [*_BACK[:-1], *_hop(3, 1, "done"), _RETURNED],
    ):
        (found,) = broken(log, [InOnePlace()])
        assert "was returned to orders, and is done already" in found.text


@pytest.mark.parametrize("crash", [[], [Crashed(2, "retry")]], ids=["no crash", "a crash"])
def test_who_is_returned_twice_by_one_retry_is_seen(crash: list[Entry]) -> None:
    """A crash is no excuse: record and offset are in one transaction."""
    (found,) = broken([*_BACK, *crash, _RETURNED], [InOnePlace()])
    assert (
        "orders.retry.1s[0]@0 was returned to orders, and is returned to its source already"
        == found.text
    )


def test_who_was_sent_by_one_that_died_may_be_there_twice() -> None:
    """Sent, and sent again by the next owner, who died of it too: a third one handles it in its
    source. Both records come back; that the second was sent at all no log has."""
    again = Place(*R1, 1)
    log = [
        *_START,
        *_LEAVES,
        EventEmitted(1, "live", events.Lost((P0,), "no poll for too long")),
        *attempt(1, 0, P0, "done", "third"),
        *_hop(2, 1, "done"),
        *_hop(2, 1, "done", place=again),
    ]
    assert [] == broken(log, [InOnePlace()])


def test_who_was_sent_by_two_that_died_of_it_may_be_there_twice() -> None:
    """Neither has said that it sent it, so no log has its id before the records come back."""
    hop = RetryHop("group/orders/0/0/bceac9f871e1", 1, 0, 1, 1, 1.0)
    back: list[Entry] = [
        entry
        for place in (_IN_R1, Place(*R1, 1))
        for entry in (
            AttemptStarted(3, "retry", place, hop),
            AttemptFinished(3, "retry", place, "done"),
        )
    ]
    tried = attempt(1, 0, P0, "failed", "live")
    done = attempt(2, 0, P0, "done", "third")
    assert [] == broken([*_START, *tried, Crashed(1, "live"), *done, *back], [InOnePlace()])
    (found,) = broken([*_START, *tried, *done, *back], [InOnePlace()])
    assert "by step 1, which is done" in found.text


def test_who_was_sent_by_one_that_is_cut_off_may_be_there_twice() -> None:
    """It does not know yet that another has its partition, who attempts the message and sends it
    again."""
    again = [*attempt(2, 0, P0, "failed", "other"), _sent(2, _AT_HOME, 1, 1, member="other")]
    assert "InOnePlace" in {one.guarantee for one in broken([*_LEAVES, *again], [InOnePlace()])}
    log = [*_LEAVES, assigned(2, P0, member="other"), *again]
    assert [] == broken(log, [InOnePlace()])
