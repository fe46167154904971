"""A row of dead letters ends where the user has set its limit."""

from concurrent.futures import Future
from itertools import pairwise
from typing import Any

import pytest
from confluent_kafka import KafkaError

from linear_retry import ConfigurationError, DeadLetters, RetryTopics, Strategy, UsageError, events
from linear_retry.consumer.ownership.requests import GiveUp, LiftLimit
from linear_retry.consumer.settings.checks import plan
from linear_retry.consumer.settings.consumer_config import Dependencies
from linear_retry.retry.decision import RetrySettings
from linear_retry.retry.engine import ConsecutiveDeadLetters
from linear_retry.scope import Scope
from linear_retry.testing import AttemptStarted, Place
from tests.consumer.group import LETTERS, TOPIC, FakeGroup, Member, OutageError, consumer_on
from tests.consumer.misbehaviours.misbehaving import emitted, turn_until
from tests.fake.cluster import FakeKafka


def attempts_of(group: FakeGroup, place: tuple[int, int]) -> list[float]:
    """When the handler was called with this partition's offset."""
    wanted = Place(TOPIC, *place)
    return [
        e.at_s for e in group.witness.entries if isinstance(e, AttemptStarted) and e.place == wanted
    ]


def refusing(group: FakeGroup, *offsets: int, partition: int = 0) -> None:
    group.dependency.refuses |= {(partition, offset) for offset in offsets}


def alone(group: FakeGroup) -> Member:
    """One member, with every partition."""
    member = group.join()
    group.share([0] * len(group.partitions))
    return member


def test_the_letter_after_the_last_one_is_held_back() -> None:
    """After `limit` letters in a row the next message is held, and its circuit stays open."""
    group = FakeGroup(partitions=1, letter_limit=2)
    group.produce(0, 5)
    refusing(group, 0, 1, 2, 3, 4)
    member = alone(group)
    turn_until(group, member, events.LimitReached)
    (opened,), (reached,) = (
        emitted(member, events.CircuitOpened),
        emitted(member, events.LimitReached),
    )
    assert [opened, reached] == member.events[-2:]
    assert (TOPIC, 0, 2, 1, 2, 30.0) == (
        reached.topic,
        reached.partition,
        reached.offset,
        reached.failures,
        reached.limit,
        reached.delay_s,
    )
    assert (30.0, opened.retry_at) == (opened.delay_s, reached.retry_at)
    assert "PoisonError()" == reached.error
    assert [0, 1] == [letter.offset for letter in emitted(member, events.DeadLettered)]
    assert [] == group.violations(finished=False)


def test_it_is_attempted_again_every_half_minute() -> None:
    """While everything fails, the message behind the limit is attempted, and nothing is sent."""
    group = FakeGroup(partitions=1, letter_limit=1)
    group.produce(0, 3)
    refusing(group, 0, 1, 2)
    member = alone(group)
    turn_until(group, member, events.LimitReached, 4)
    times_s = attempts_of(group, (0, 1))
    waits_s = [after - before for before, after in pairwise(times_s)]
    assert [30.0, 30.0, 30.0] == pytest.approx(waits_s, abs=0.02)
    assert [1, 2, 3, 4] == [event.failures for event in emitted(member, events.LimitReached)]
    assert 1 == len(emitted(member, events.DeadLettered))
    assert 1 == len(emitted(member, events.CircuitOpened))
    assert [] == emitted(member, events.ProbeFailed)
    assert [] == group.violations(finished=False)


def test_its_own_success_ends_it() -> None:
    """The deployment is fixed: the held message is handled, and the next bad one has a letter."""
    group = FakeGroup(partitions=1, letter_limit=1)
    group.produce(0, 5)
    refusing(group, 0, 1, 2)
    member = alone(group)
    turn_until(group, member, events.LimitReached)
    group.dependency.refuses = {(0, 2)}
    group.finish()
    assert [0, 2] == [letter.offset for letter in emitted(member, events.DeadLettered)]
    assert ["recovered"] == [event.outcome for event in emitted(member, events.CircuitClosed)]
    assert [] == group.violations()


def test_a_success_of_the_read_ahead_ends_the_row() -> None:
    """Two, a success, two: never three in a row, so nothing is held back."""
    group = FakeGroup(partitions=1, letter_limit=2)
    group.produce(0, 9)
    refusing(group, 0, 1, 3, 4, 6, 7)
    member = alone(group)
    group.finish()
    assert 6 == len(emitted(member, events.DeadLettered))
    assert [] == emitted(member, events.LimitReached)
    assert [] == group.violations()


def test_in_every_scope_the_next_letter_is_held_back() -> None:
    """The row is the consumer's: two partitions make it together, and wait for each other."""
    group = FakeGroup(partitions=2, scope="partition", letter_limit=2)
    group.produce(0, 2)
    group.produce(1, 2)
    refusing(group, 0, 1, partition=0)
    refusing(group, 0, 1, partition=1)
    member = alone(group)
    turn_until(group, member, events.LimitReached, 2)
    assert 2 == len(emitted(member, events.DeadLettered))
    assert {0, 1} == {event.partition for event in emitted(member, events.LimitReached)}
    assert [] == group.violations(finished=False)


def test_a_letter_in_doubt_counts() -> None:
    """Not acknowledged, it may be there all the same: the others are held back behind it."""
    group = FakeGroup(partitions=2, scope="partition", letter_limit=1)
    group.produce(0, 1)
    refusing(group, 0)
    group.fake.faults.lose_report(lands=True)
    member = alone(group)
    turn_until(group, member, events.DeadLetterFailed)
    group.produce(1, 1)
    refusing(group, 0, partition=1)
    turn_until(group, member, events.DeadLettered)
    turn_until(group, member, events.LimitReached)
    (letter,), (reached,) = (
        emitted(member, events.DeadLettered),
        emitted(member, events.LimitReached),
    )
    assert (0, 1) == (letter.partition, reached.partition)
    group.dependency.refuses = set()
    group.finish()
    assert 1 == len(emitted(member, events.DeadLettered))
    assert 2 == len(attempts_of(group, (1, 0)))
    assert [] == group.violations()


def test_what_an_operator_gave_up_counts_for_nothing_in_doubt_either() -> None:
    """It says that the message is at fault, and nothing about those after it."""
    group = FakeGroup(partitions=2, scope="partition", strategy=[1000], letter_limit=1)
    group.produce(0, 1)
    group.dependency.down = True
    member = alone(group)
    turn_until(group, member, events.CircuitOpened)
    group.fake.faults.fail_delivery(KafkaError._MSG_TIMED_OUT)
    member.parts.requests.submit(GiveUp(((TOPIC, 0), 0)))
    turn_until(group, member, events.DeadLetterFailed)
    group.dependency.down = False
    group.produce(1, 1)
    refusing(group, 0, partition=1)
    group.finish()
    assert {0, 1} == {letter.partition for letter in emitted(member, events.DeadLettered)}
    assert [] == emitted(member, events.LimitReached)
    assert [] == group.violations()


def test_the_row_outlives_a_rebalance() -> None:
    """A bad deployment goes on being one when partitions are shared out again."""
    group = FakeGroup(partitions=1, letter_limit=2)
    group.produce(0, 4)
    refusing(group, 0, 1, 2, 3)
    member = alone(group)
    turn_until(group, member, events.DeadLettered)
    group.fake.lose(member.consumer)
    group.share([0])
    turn_until(group, member, events.LimitReached)
    assert [] == group.violations(finished=False)


def lift(member: Member, letters: int | None = None) -> Future[bool]:
    return member.parts.requests.submit(LiftLimit(letters, "a bad batch"))


def test_a_lifted_limit_lets_what_it_holds_go() -> None:
    """A producer made a thousand bad messages: nothing could be done but to restart, or give up
    one after another. Lifted, they go to the dead letters at once."""
    group = FakeGroup(partitions=1, letter_limit=2)
    group.produce(0, 9)
    refusing(group, *range(9))
    member = alone(group)
    turn_until(group, member, events.LimitReached)
    before_s = group.fake.clock.now_s()
    answer = lift(member)
    group.turn()
    assert answer.result(0)
    assert [events.LimitLifted(None, "a bad batch")] == emitted(member, events.LimitLifted)
    assert 1 == len(emitted(member, events.RetriedNow))
    group.finish()
    assert 9 == len(emitted(member, events.DeadLettered))
    assert group.fake.clock.now_s() - before_s < 20
    assert 1 == len(emitted(member, events.LimitReached))
    assert [] == group.violations()


def test_a_lifted_limit_is_back_after_a_success() -> None:
    """Lifted for one bad batch, it is there for the next outage."""
    group = FakeGroup(partitions=1, letter_limit=1)
    group.produce(0, 8)
    refusing(group, 0, 1, 2, 4, 5)
    member = alone(group)
    turn_until(group, member, events.LimitReached)
    lift(member)
    turn_until(group, member, events.LimitReached, 2)
    assert [0, 1, 2, 4] == [letter.offset for letter in emitted(member, events.DeadLettered)]
    assert [] == group.violations(finished=False)


def test_a_limit_is_lifted_for_so_many_letters() -> None:
    """And then it holds again, though nothing has succeeded."""
    group = FakeGroup(partitions=1, letter_limit=2)
    group.produce(0, 9)
    refusing(group, *range(9))
    member = alone(group)
    turn_until(group, member, events.LimitReached)
    lift(member, 3)
    turn_until(group, member, events.LimitReached, 2)
    assert 5 == len(emitted(member, events.DeadLettered))
    assert [events.LimitLifted(3, "a bad batch")] == emitted(member, events.LimitLifted)
    assert [] == group.violations(finished=False)


def test_a_letter_in_doubt_is_within_those_that_it_is_lifted_for() -> None:
    """It may be there all the same, and is sent once more."""
    row = ConsecutiveDeadLetters()
    row.note("permanent")
    row.lift(2)
    assert [0, 0, 3] == [row.counted(in_doubt) for in_doubt in range(3)]
    row.note("permanent")
    assert [0, 3] == [row.counted(in_doubt) for in_doubt in range(2)]
    row.note("given-up")
    assert [0, 1] == [row.counted(in_doubt) for in_doubt in range(2)]


def test_a_view_says_that_the_limit_holds_a_message() -> None:
    """Until it is attempted again: then it is as the attempt says."""
    group = FakeGroup(partitions=1, letter_limit=1)
    group.produce(0, 3)
    refusing(group, 0, 1)
    member = alone(group)
    turn_until(group, member, events.LimitReached)
    assert "limit" == member.circuits.views[Scope()].waits_for
    group.dependency.refuses = set()
    group.dependency.down = True
    turn_until(group, member, events.ProbeFailed)
    assert "failed" == member.circuits.views[Scope()].waits_for
    group.dependency.down = False
    group.finish()
    assert [] == group.violations()


@pytest.mark.parametrize(
    ("letters", "reason", "part"),
    [
        (0, "x", "letters=0"),
        (True, "x", "letters=True"),
        ("9", "x", "letters='9'"),
        (9, " ", "reason=' '"),
    ],
)
def test_what_lifts_no_limit(letters: Any, reason: str, part: str) -> None:
    """Refused at once, with what was given."""
    with consumer_on(FakeKafka()) as consumer, pytest.raises(UsageError, match=part):
        consumer.lift_limit(letters, reason=reason)


def test_where_there_is_no_limit_none_is_lifted() -> None:
    """The program is told so."""
    without = DeadLetters(LETTERS, limit=None)
    with (
        consumer_on(FakeKafka(), dead_letters=without) as consumer,
        pytest.raises(UsageError, match="has no limit"),
    ):
        consumer.lift_limit(reason="a bad batch")


def test_the_limit_of_retry_topics_is_lifted_too() -> None:
    """The bug: without a limit of dead letters it was refused, though messages were held."""
    retries = RetryTopics("orders.retry", strategy=["5m"], limit=3)
    without = DeadLetters(LETTERS, limit=None)
    with consumer_on(FakeKafka(), dead_letters=without, on_exhausted=retries) as consumer:
        assert not consumer.lift_limit(reason="known").result(0)  # it has not started


def test_a_consumer_that_has_not_started_lifts_nothing() -> None:
    """Nor ends it any wait: False at once."""
    with consumer_on(FakeKafka()) as consumer:
        assert not consumer.lift_limit(reason="a bad batch").result(0)
        assert not consumer.retry_now().result(0)


def test_the_row() -> None:
    """Letters that the policy wanted are counted; a success, or an operator's word, ends them."""
    row = ConsecutiveDeadLetters()
    counts = []
    for step in ("exhausted", "permanent", "given-up", "permanent", "success", "exhausted"):
        if step == "success":
            row.end()
        else:
            row.note(step)
        counts.append(row.counted())
    assert [1, 2, 0, 1, 0, 1] == counts


@pytest.mark.parametrize("limit", [0, -1, True, False, 1.0, "20", float("nan")], ids=repr)
def test_what_is_no_limit(limit: Any) -> None:
    """A whole number from 1; all else is refused at construction, with what was given."""
    with pytest.raises(ConfigurationError, match="must be a whole number from 1") as refusal:
        DeadLetters("orders.dlq", limit=limit)
    assert f"limit={limit!r}" in str(refusal.value)


@pytest.mark.parametrize("hold", [0, -1, True, "soon", "0s", float("nan"), float("inf"), 604_801])
def test_what_is_no_hold(hold: Any) -> None:
    """Longer than nothing and up to a week; all else is refused at construction, by name."""
    with pytest.raises(ConfigurationError, match="hold"):
        DeadLetters("orders.dlq", hold=hold)


@pytest.mark.parametrize(("hold", "hold_s"), [(None, None), (45, 45.0), (0.5, 0.5), ("5m", 300.0)])
def test_the_hold_is_the_policys(hold: Any, hold_s: float | None) -> None:
    """Seconds or a duration, as strategies take them."""
    assert hold_s == _retry_settings(DeadLetters(LETTERS, hold=hold)).policy.hold_s


def _retry_settings(dead_letters: DeadLetters | None) -> RetrySettings:
    return plan(
        {"bootstrap.servers": "fake:9092", "group.id": "billing"},
        [TOPIC],
        strategy=Strategy([1]),
        transient=OutageError,
        dead_letters=dead_letters,
        scope="consumer",
        on_exhausted="stop",
        on_permanent="dead-letter" if dead_letters else "stop",
        start_timeout_s=1,
        close_timeout_s=1,
        dependencies=Dependencies(),
    ).retry


@pytest.mark.parametrize(
    ("dead_letters", "limit"),
    [
        (DeadLetters(LETTERS, limit=7), 7),
        (DeadLetters(LETTERS), 20),
        (DeadLetters(LETTERS, limit=None), None),
        (None, None),
    ],
)
def test_the_limit_is_the_policys(dead_letters: DeadLetters | None, limit: int | None) -> None:
    """What `DeadLetters` says is what decisions go by."""
    assert limit == _retry_settings(dead_letters).policy.letter_limit
