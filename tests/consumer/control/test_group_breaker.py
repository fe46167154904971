"""One member attempts for the whole group, and the others hold what they have."""

from collections import Counter
from collections.abc import Iterable
from dataclasses import replace
from typing import Any

import pytest

from linear_retry import Strategy, events
from linear_retry.consumer.settings.by_key import ByKey
from linear_retry.records.control import Command
from linear_retry.scope import Scope
from linear_retry.testing import AttemptStarted
from tests.consumer.group import TOPIC, FakeGroup, Member, Protocol
from tests.consumer.misbehaviours.misbehaving import all_protocols, begun, emitted, until

_MEMBERS = 5
_WAYS: list[dict[str, Any]] = [
    {"scope": "consumer"},
    {"scope": ByKey(trip=2)},
    {"scope": ByKey(trip=2), "concurrency": 4},
]
_each_way = pytest.mark.parametrize("way", _WAYS, ids=["consumer", "key", "key-4"])


def _group(members: int = _MEMBERS, busy: Iterable[int] | None = None, **options: Any) -> FakeGroup:
    """So many members with a partition each; in those that are `busy` are messages of four keys."""
    chosen: dict[str, Any] = {
        "partitions": members,
        "strategy": [1, 2, 4, *[8] * 100],
        "group_breaker_max_s": 600.0,
    }
    group = FakeGroup(**chosen | options)
    for _ in range(members):
        group.join()
    group.share(range(members))
    group.turn(2)
    _produce(group, range(members) if busy is None else busy)
    return group


def _produce(group: FakeGroup, partitions: Iterable[int]) -> None:
    for partition in partitions:
        group.produce_keys(partition, [b"a", b"b", b"c", b"d"] * 3)
    if group.scope == "consumer":
        group.keys.clear()


def _attempts(group: FakeGroup, since: int) -> Counter[str]:
    """How many each member has begun since then."""
    entries = [each for each in group.witness.entries if isinstance(each, AttemptStarted)]
    return Counter(each.member for each in entries[since:])


def _held(group: FakeGroup) -> list[Member]:
    return [each for each in group.members if each.circuits.by_order.of_group is not None]


def _all_but_one_hold(group: FakeGroup) -> bool:
    return len(_held(group)) == len(group.members) - 1


def _leader(group: FakeGroup) -> Member:
    (leader,) = (each for each in group.members if each not in _held(group))
    return leader


def _wait(group: FakeGroup, for_s: float) -> None:
    until_s = group.fake.clock.now_s() + for_s
    until(group, lambda: group.fake.clock.now_s() >= until_s)


def _keeping_back(group: FakeGroup) -> list[Command]:
    """What is announced from now on, which nobody hears."""
    kept: list[Command] = []

    def keep_back(command: Command) -> bool:
        kept.append(command)
        return False

    group.is_heard = keep_back
    return kept


@_each_way
@all_protocols
def test_one_member_attempts_for_all(way: dict[str, Any], protocol: Protocol) -> None:
    """Once all hold, the attempts of the outage are one member's; then all go on, in order."""
    group = _group(protocol=protocol, **way)
    group.dependency.down = True
    until(group, lambda: _all_but_one_hold(group))
    leader, before = _leader(group), len(begun(group))
    _wait(group, 60)
    assert {leader.name} == set(_attempts(group, before))
    assert [leader.id] * (_MEMBERS - 1) == [
        event.by for each in _held(group) for event in emitted(each, events.HeldByGroup)
    ]
    group.dependency.down = False
    until(group, lambda: not _held(group))
    ends = [event for each in group.members for event in emitted(each, events.GroupHoldEnded)]
    assert [True] * (_MEMBERS - 1) == [end.recovered for end in ends]
    group.finish()
    assert [] == emitted(leader, events.DeadLettered)
    assert [] == group.violations()


@_each_way
def test_the_first_announcement_counts(way: dict[str, Any]) -> None:
    """All members fail before they hear of each other: by the topic's order one leads."""
    group = _group(**way)
    group.dependency.down = True
    late = _keeping_back(group)
    until(group, lambda: len({each.by for each in late}) == _MEMBERS)
    group.is_heard = lambda _: True
    for command in late:
        _hear(group.members, command)
    until(group, lambda: _all_but_one_hold(group))
    assert late[0].by == _leader(group).id
    group.dependency.down = False
    group.finish()
    assert [] == group.violations()


@_each_way
@pytest.mark.parametrize("how", ["crash", "leave"])
def test_another_takes_over_from_one_that_is_gone(way: dict[str, Any], how: str) -> None:
    """And only one: those who would claim that in the same moment go by the topic's order."""
    group = _group(**way)
    group.dependency.down = True
    until(group, lambda: _all_but_one_hold(group))
    gone = _leader(group)
    if how == "crash":
        group.crash(gone)
    else:
        group.leave(gone)
    group.share([*range(len(group.members)), 0])
    until(group, lambda: _all_but_one_hold(group))
    leader, before = _leader(group), len(begun(group))
    _wait(group, 40)
    assert {leader.name} == set(_attempts(group, before))
    group.dependency.down = False
    group.finish()
    assert [] == group.violations()


def test_a_turn_is_over_after_its_time() -> None:
    """What fails with one member may be its message alone: others get a turn, one at a time."""
    group = _group(group_breaker_max_s=20.0, busy=[0])
    group.dependency.down_for.add((TOPIC, 0))
    until(group, lambda: _all_but_one_hold(group))
    _produce(group, range(1, _MEMBERS - 1))  # the last member has no success of its own
    others = group.members[1:]
    until(group, lambda: all(emitted(each, events.GroupHoldEnded) for each in others))
    ends = [event for each in others for event in emitted(each, events.GroupHoldEnded)]
    assert [True] * (_MEMBERS - 2) == [end.recovered for end in ends if end.recovered]
    assert all(end.held_s < 25 for end in ends)
    holds = [len(emitted(each, events.HeldByGroup)) for each in others]
    _wait(group, 60)
    assert holds == [len(emitted(each, events.HeldByGroup)) for each in others]
    group.dependency.down_for.clear()
    group.finish()
    assert [] == group.violations()


def _only_the_first_fails() -> FakeGroup:
    """Its word arrives after the second member's messages have succeeded; the others are idle."""
    group = _group(busy=[0, 1])
    group.dependency.down_for.add((TOPIC, 0))
    group.dependency.takes_s = 0.5
    kept = _keeping_back(group)
    until(group, lambda: kept)
    group.turn()  # meanwhile the second succeeds
    group.is_heard = lambda _: True
    _hear(group.members, kept[0])
    until(group, lambda: len(_held(group)) == _MEMBERS - 2)
    return group


def test_a_member_whose_messages_succeed_goes_on() -> None:
    """Its dependency answers, whatever one member announces."""
    group = _only_the_first_fails()
    first, second, *others = group.members
    group.turn(5)
    assert [] == emitted(first, events.HeldByGroup) + emitted(second, events.HeldByGroup)
    assert [1] * len(others) == [len(emitted(each, events.HeldByGroup)) for each in others]
    group.dependency.down_for.clear()
    group.finish()
    assert [] == group.violations()


def test_who_has_succeeded_and_fails_holds() -> None:
    """The dependency does not answer it any more: it need not find that out again and again."""
    group = _only_the_first_fails()
    _, second, *_ = group.members
    until(group, lambda: group.fake.group(group.group_id)[TOPIC, 1] == 12)
    group.dependency.down = True
    before = len(begun(group))
    _produce(group, [1])
    until(group, lambda: emitted(second, events.CircuitOpened))
    _wait(group, 30)
    assert second in _held(group)
    assert 1 == _attempts(group, before)[second.name]
    group.dependency.down = False
    group.dependency.down_for.clear()
    group.finish()
    assert [] == group.violations()


def _forged(group: FakeGroup, **changes: Any) -> Command:
    now_ms = group.fake.clock.utc_ms()
    command = Command(
        *("7d7c3d0e-2a52-4b8e-9f6b-0d1c7a1f1f60", "outage", group.group_id, None, None, None),
        by="nobody",
        at_ms=now_ms,
        reason="a lie",
        for_s=30,
        first_ms=now_ms,
    )
    return replace(command, **changes)


def _hear(members: Iterable[Member], command: Command) -> None:
    for member in members:
        member.parts.commands.post(command)


@pytest.mark.parametrize(
    "lie",
    [
        {"for_s": 10**9},
        {"at_ms": 10**14},
        {"at_ms": 10**14, "for_s": 10**9, "first_ms": 10**14},
    ],
    ids=["for-ever", "from-the-future", "both"],
)
def test_a_forged_word_costs_a_turn_at_most(lie: dict[str, Any]) -> None:
    """Whatever its times are. Then a member claims the next, and succeeds."""
    group = _group(group_breaker_max_s=20.0)
    _hear(group.members, _forged(group, **lie))
    began_s = group.fake.clock.now_s()
    group.finish()
    assert group.fake.clock.now_s() - began_s < 30
    assert [] == group.violations()


def test_an_old_word_is_for_nobody() -> None:
    """Who reads it late does not begin to wait anew, and an outage that is over holds nobody."""
    group = _group(busy=[])
    now_ms = group.fake.clock.utc_ms()
    old, young = now_ms - 61_000, now_ms - 40_000
    _hear(group.members, _forged(group, at_ms=old, first_ms=old, for_s=60))
    group.turn()
    assert [] == _held(group)
    _hear(group.members, _forged(group, at_ms=young, first_ms=young, for_s=60))
    group.turn()
    assert _MEMBERS == len(_held(group))
    _produce(group, range(_MEMBERS))
    until(group, lambda: not _held(group))
    assert group.fake.clock.utc_ms() - now_ms < 25_000
    group.finish()
    assert [] == group.violations()


def test_who_joins_in_an_outage_holds_too() -> None:
    """It reads who leads; and after the recovery, that it is over."""
    group = _group(scope="consumer")
    group.dependency.down = True
    until(group, lambda: _all_but_one_hold(group))
    joined = group.join()
    group.share([0, 1, 2, 3, 5])
    until(group, lambda: joined in _held(group))
    before = len(begun(group))
    _wait(group, 30)
    assert {_leader(group).name} == set(_attempts(group, before))
    group.dependency.down = False
    until(group, lambda: not _held(group))
    late = group.join()
    group.turn(2)
    assert [] == emitted(late, events.HeldByGroup)
    group.finish()
    assert [] == group.violations()


def test_who_waits_for_much_longer_claims_nothing() -> None:
    """Its own circuit holds it, and a turn in which nothing is attempted is of no use."""
    group = _group(members=3, strategy=[300, 300], group_breaker_max_s=20.0)
    group.dependency.down = True
    until(group, lambda: all(each.circuits.get(Scope()) for each in group.members))
    _wait(group, 30)
    assert [] == _held(group)
    said = len(group.said)
    _wait(group, 120)
    assert said == len(group.said)
    group.dependency.down = False
    group.finish(within_s=400)
    assert [] == group.violations()


@_each_way
def test_without_the_topic_each_finds_out_for_itself(way: dict[str, Any]) -> None:
    """As without a breaker for the group."""
    group = _group(**way)
    group.is_heard = lambda _: False
    group.dependency.down = True
    until(group, lambda: all(emitted(each, events.CircuitOpened) for each in group.members))
    _wait(group, 20)
    assert [] == _held(group)
    group.dependency.down = False
    group.finish()
    assert [] == group.violations()


def test_what_is_held_keeps_its_failures_and_its_time() -> None:
    """The outage is longer than `max_elapsed`: only the message that is attempted uses it up."""
    strategy = Strategy([1, 2, *[4] * 100], max_elapsed=30)
    group = _group(members=2, strategy=strategy)
    group.dependency.down = True
    until(group, lambda: _all_but_one_hold(group))
    (held,) = _held(group)
    _wait(group, 60)
    assert [] == emitted(held, events.DeadLettered)
    view = held.circuits.views[Scope()]
    assert ("open", "group") == (view.state, view.waits_for)
    assert f"{_leader(group).id} attempts for the group: " in str(view.error)
    group.dependency.down = False
    group.finish()
    assert [] == emitted(held, events.DeadLettered)
    assert [] == group.violations()
