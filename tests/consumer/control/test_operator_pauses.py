"""An operator pauses a consumer: nothing of it is attempted, and nothing has failed."""

from functools import partial
from typing import Any

import pytest

from linear_retry import Strategy, UsageError, events
from linear_retry.consumer.ownership.requests import EndPause, GiveUp, PauseWish, Retry
from linear_retry.consumer.settings.by_key import ByKey
from linear_retry.retry.case import Failing
from linear_retry.scope import Scope
from linear_retry.testing import AttemptStarted, EventEmitted
from tests.consumer.group import (
    OTHER_TOPIC,
    TOPIC,
    FakeGroup,
    Member,
    Protocol,
    consumer_on,
)
from tests.consumer.misbehaviours.misbehaving import all_protocols, begun, emitted, until
from tests.consumer.ownership.test_requests import reasons
from tests.consumer.two_lines import TwoLines
from tests.fake.cluster import FakeKafka

_ALL = Scope()
_WAYS: list[dict[str, Any]] = [
    {"scope": "consumer"},
    {"scope": "topic"},
    {"scope": "partition"},
    {"scope": "partition", "concurrency": 2},
    {"scope": "key"},
    {"scope": "key", "concurrency": 4},
]
_each_way = pytest.mark.parametrize("way", _WAYS, ids=lambda way: "-".join(map(str, way.values())))


def _group(**options: Any) -> tuple[FakeGroup, Member]:
    """One member of two partitions, with three messages of two keys in each."""
    chosen: dict[str, Any] = {"partitions": 2, "strategy": [2, 4, 60]} | options
    group = FakeGroup(**chosen)
    for partition in group.partitions:
        group.produce_keys(partition, [b"a", b"b", b"a"])
    member = group.join()
    group.share([0] * len(group.partitions))
    if group.scope in ("consumer", "topic", "partition"):
        group.keys.clear()
    return group, member


def _pause(group: FakeGroup, member: Member, for_s: float = 20, scope: Scope = _ALL) -> None:
    until_ms = group.fake.clock.utc_ms() + round(for_s * 1000)
    member.parts.requests.submit(PauseWish(scope, until_ms, "ops@desk", "the ledger moves"))


def _begun_before_it_ended(group: FakeGroup, member: Member) -> int:
    """How many attempts: the turn that ends a pause may begin some more."""
    kinds = (AttemptStarted, EventEmitted)
    entries = [each for each in group.witness.entries if isinstance(each, kinds)]
    ends = [isinstance(getattr(each, "event", None), events.PauseEnded) for each in entries]
    before = entries[: ends.index(True)]
    return sum(isinstance(each, AttemptStarted) for each in before)


@_each_way
@all_protocols
def test_nothing_is_attempted_until_it_is_over(way: dict[str, Any], protocol: Protocol) -> None:
    """Then all is, in order; the record says who paused it, why and for how long."""
    group, member = _group(protocol=protocol, **way)
    until(group, lambda: member.parts.assignment.partitions)
    before = len(begun(group))
    _pause(group, member)
    until(group, lambda: emitted(member, events.PausedByHand))
    paused = len(begun(group))
    until(group, lambda: emitted(member, events.PauseEnded))
    assert paused == _begun_before_it_ended(group, member)
    group.finish()
    (began,), (ended,) = emitted(member, events.PausedByHand), emitted(member, events.PauseEnded)
    assert (_ALL, "ops@desk", "the ledger moves") == (began.scope, began.by, began.reason)
    assert (_ALL, False) == (ended.scope, ended.closed)
    assert 20.0 == pytest.approx(ended.paused_s, abs=1.1)
    assert before <= paused < len(begun(group))
    assert [] == group.violations()


@_each_way
def test_it_ends_early_when_an_operator_says_so(way: dict[str, Any]) -> None:
    """Whoever asks for that twice is told that there was none."""
    group, member = _group(**way)
    group.turn()
    _pause(group, member)
    until(group, lambda: emitted(member, events.PausedByHand))
    ends = [member.parts.requests.submit(EndPause(_ALL)) for _ in range(2)]
    group.turn(2)
    assert [True, False] == [end.result(0) for end in ends]
    (ended,) = emitted(member, events.PauseEnded)
    assert ended.closed
    group.finish()
    assert [] == group.violations()


@_each_way
def test_what_is_held_keeps_its_failures_and_its_time(way: dict[str, Any]) -> None:
    """The pause is longer than `max_elapsed`, and uses nothing of it up."""
    group, member = _group(strategy=Strategy([2, 4, 8], max_elapsed=15), **way)
    group.dependency.down = True
    until(group, lambda: emitted(member, events.CircuitOpened))
    _pause(group, member)
    until(group, lambda: emitted(member, events.PausedByHand))
    before = len(begun(group))
    until(group, lambda: emitted(member, events.PauseEnded))
    assert before == _begun_before_it_ended(group, member)
    assert [] == emitted(member, events.DeadLettered)
    group.dependency.down = False
    group.finish()
    assert [] == emitted(member, events.DeadLettered)
    assert [] == group.violations()


def test_one_topic_may_be_paused_alone() -> None:
    """The others go on, whatever the scope of circuits is."""
    group, member = _group(topics=(TOPIC, OTHER_TOPIC), scope="partition")
    until(group, lambda: len(member.parts.assignment.partitions) == 4)
    _pause(group, member, scope=Scope(TOPIC))
    until(group, lambda: emitted(member, events.PausedByHand))
    for partition in group.partitions:
        group.produce(partition, 2)
    until(group, lambda: emitted(member, events.PauseEnded))
    committed = group.fake.group(group.group_id)
    assert [5, 5] == [committed[OTHER_TOPIC, number] for number in range(2)]
    assert all(committed.get((TOPIC, number), 0) < 5 for number in range(2))
    group.finish()
    assert [] == group.violations()


@_each_way
@all_protocols
def test_partitions_that_come_meanwhile_are_paused_too(
    way: dict[str, Any], protocol: Protocol
) -> None:
    """A rebalance in a maintenance window must not end it."""
    group, member = _group(protocol=protocol, **way)
    group.share([0, 1 if len(group.members) > 1 else 0])
    second = group.join()
    group.share([0, 1])
    until(group, lambda: second.parts.assignment.partitions)
    _pause(group, member)
    until(group, lambda: emitted(member, events.PausedByHand))
    group.leave(second)
    group.produce(1, 3)
    group.share([0, 0])
    paused = len(begun(group))
    until(group, lambda: emitted(member, events.PauseEnded))
    assert paused == _begun_before_it_ended(group, member)
    group.finish()
    assert [] == group.violations()


def test_a_retry_waits_for_the_end_and_a_letter_does_not() -> None:
    """Nothing is attempted, whoever asks; giving up needs no attempt."""
    group, member = _group(scope="partition", strategy=[3600])
    group.dependency.down = True
    until(group, lambda: len(emitted(member, events.CircuitOpened)) == 2)
    _pause(group, member)
    until(group, lambda: emitted(member, events.PausedByHand))
    retried = member.parts.requests.submit(Retry(((TOPIC, 0), 0)))
    given_up = member.parts.requests.submit(GiveUp(((TOPIC, 1), 0)))
    group.turn(5)
    assert (False, True) == (retried.done(), given_up.done())
    assert ["given-up"] == reasons(group)
    group.dependency.down = False
    until(group, lambda: emitted(member, events.PauseEnded))
    group.turn(3)
    assert retried.result(0)
    group.finish()
    assert [] == group.violations()


def test_what_is_given_up_resumes_nothing() -> None:
    """Its circuit closes; the rest of its partition is paused by the operator still."""
    group, member = _group(scope="partition", strategy=[3600])
    group.dependency.down = True
    until(group, lambda: len(emitted(member, events.CircuitOpened)) == 2)
    _pause(group, member)
    until(group, lambda: emitted(member, events.PausedByHand))
    group.dependency.down = False
    member.parts.requests.submit(GiveUp(((TOPIC, 1), 0)))
    before = len(begun(group))
    until(group, lambda: emitted(member, events.PauseEnded))
    assert before == _begun_before_it_ended(group, member)
    assert [] == emitted(member, events.LeakDropped)
    group.finish(within_s=4000)
    assert [] == group.violations()


def test_a_second_pause_replaces_the_first_and_none_is_longer_than_allowed() -> None:
    """Since when it is paused remains; a forged end in a year is cut to an hour."""
    group, member = _group()
    group.turn()
    _pause(group, member, for_s=1)
    group.turn()
    _pause(group, member, for_s=365 * 86_400)
    group.turn()
    views = member.circuits.views
    left_s = views[_ALL].retry_at.timestamp() - group.fake.clock.utc_ms() / 1000  # type: ignore[union-attr]
    assert 3600 == pytest.approx(left_s, abs=2)
    assert ("open", "pause") == (views[_ALL].state, views[_ALL].waits_for)
    assert "paused by ops@desk: the ledger moves" == views[_ALL].error
    past = PauseWish(_ALL, group.fake.clock.utc_ms() - 1, "ops@desk", "too late")
    refused = member.parts.requests.submit(past)
    group.turn()
    assert refused.result(0) is False


def test_there_is_an_end_to_the_topics_that_are_paused() -> None:
    """Forged commands may name any number of them: neither memory nor a turn grows with it."""
    group, member = _group()
    group.turn()
    for number in range(200):
        _pause(group, member, scope=Scope(f"forged-{number}"))
    group.turn()
    assert 100 == len(member.circuits.by_order.by_operators)
    assert 100 == len(emitted(member, events.PausedByHand))
    group.finish()
    assert [] == group.violations()


@pytest.mark.parametrize(
    ("given", "sentence"),
    [
        ({"for_s": 0, "reason": "r"}, "for_s=0: must be a number of seconds above 0, and at most"),
        ({"for_s": 3601, "reason": "r"}, "at most group_pause_max_s, 3600"),
        ({"for_s": True, "reason": "r"}, "for_s=True"),
        ({"for_s": 5, "reason": " "}, "reason=' ': must be a text; say why"),
    ],
)
def test_what_cannot_be_a_pause_is_refused(given: dict[str, Any], sentence: str) -> None:
    """With the value and the rule."""
    with (
        consumer_on(FakeKafka()) as consumer,
        pytest.raises(UsageError, match=sentence),
    ):
        consumer.open_circuit(**given)


def test_a_group_is_paused_by_the_control_topic() -> None:
    """Without one, nobody else would learn of it."""
    with consumer_on(FakeKafka()) as consumer:
        for asked in (
            partial(consumer.open_circuit, 60, "the ledger moves", group=True),
            partial(consumer.close_circuit, group=True),
        ):
            with pytest.raises(UsageError, match="the consumer follows no control topic; give it"):
                asked()


def test_a_retry_line_is_paused_too() -> None:
    """What is due meanwhile is attempted at the end, and nothing before its time."""
    lines = TwoLines(["5s"], partitions=1)
    lines.start()
    lines.dependency.fails[0, 0] = 1
    lines.live.produce(0, 1)
    lines.run(3)
    assert 1 == len(lines.waiting())
    _pause(lines.retry, lines.reader)
    lines.run(15)
    assert [] == lines.attempts(lines.retries.topics[0])
    lines.run(10)
    assert 2 == len(lines.dependency.handled) + 1
    assert [] == lines.early()
    assert [] == lines.violations(alive_within_s=30)


def test_a_pause_in_an_outage_is_not_counted_twice() -> None:
    """The wide circuit spares the keys that it stops, the pause all others: a key that fails on is
    given up after its time, and no later."""
    group, member = _group(scope=ByKey(trip=2), strategy=Strategy([2] * 30, max_elapsed=20))
    group.dependency.down = True
    until(group, lambda: member.circuits.get(_ALL))
    _pause(group, member, for_s=10)
    until(group, lambda: emitted(member, events.PauseEnded))
    firsts = [
        circuit.case.held.failures.first_s
        for scope, circuit in member.circuits
        if scope.key is not None and isinstance(circuit.case, Failing)
    ]
    assert firsts
    assert all(first_s < 1010.0 for first_s in firsts)
    group.dependency.down = False
    group.finish()
    assert [] == group.violations()
