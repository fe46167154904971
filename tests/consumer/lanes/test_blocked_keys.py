"""`"block"`: a key that fails for good waits for an operator, and stops no other."""

from typing import Any

import pytest

from linear_retry import ConfigurationError, events
from linear_retry.consumer.ownership.requests import GiveUp, Retry
from linear_retry.consumer.settings.by_key import ByKey
from linear_retry.retry.circuits import CircuitView
from linear_retry.scope import Partition
from linear_retry.testing.event_log import EventEmitted
from tests.consumer.group import LETTERS, TOPIC, FakeGroup, Member

_P0: Partition = (TOPIC, 0)
_HOUR_S = 3_600.0


def _group(keys: str, **options: Any) -> tuple[FakeGroup, Member]:
    """One partition, with a message for each of these keys, and a member that has it."""
    chosen: dict[str, Any] = {"scope": "key", "concurrency": 4, "on_exhausted": "block"}
    group = FakeGroup(partitions=1, **(chosen | options))
    group.produce_keys(0, [each.encode() for each in keys])
    member = group.join()
    group.share([0])
    return group, member


def _blocked(group: FakeGroup) -> list[tuple[int, int]]:
    """Which messages were blocked, and after how many failures."""
    happened = [each.event for each in group.witness.entries if isinstance(each, EventEmitted)]
    return [
        (each.offset, each.failures) for each in happened if isinstance(each, events.KeyBlocked)
    ]


def _turn_for(group: FakeGroup, seconds: float) -> None:
    until_s = group.fake.clock.now_s() + seconds
    while group.fake.clock.now_s() < until_s:
        group.turn()
        group.fake.clock.advance(20.0)


def _fails(group: FakeGroup, keys: str) -> None:
    group.dependency.down_for_keys = {each.encode() for each in keys}


def _view(member: Member) -> CircuitView:
    (view,) = (view for scope, view in member.circuits.views.items() if scope.key is not None)
    return view


def test_it_waits_until_it_is_retried() -> None:
    """However long that takes, the other keys go on; then its followers come, in their order."""
    group, member = _group("abcabcab", strategy=[1.0, 1.0])
    _fails(group, "a")
    _turn_for(group, _HOUR_S)
    _fails(group, "")
    _turn_for(group, _HOUR_S)
    assert [0, 0, 0] == [offset for offset in group.attempted() if offset % 3 == 0]
    assert [(0, 3)] == _blocked(group)
    assert ("open", None, 3, "operator") == (
        (view := _view(member)).state,
        view.retry_at,
        view.failures,
        view.waits_for,
    )
    assert member.parts.requests.submit(Retry((_P0, 0)))
    group.finish()
    assert [0, 3, 6] == group.attempted()[-3:]
    (retried,) = [each for each in member.events if isinstance(each, events.RetriedNow)]
    assert (3, 0.0) == (retried.failures, retried.remaining_s)
    assert [] == group.violations()


def test_one_that_fails_again_is_blocked_again() -> None:
    """Its one attempt is over, whatever there is in the strategy: it is used up."""
    group, member = _group("ab", strategy=[1.0])
    _fails(group, "a")
    _turn_for(group, _HOUR_S)
    since = _view(member).since
    asked = member.parts.requests.submit(Retry((_P0, 0)))
    _turn_for(group, _HOUR_S)
    assert asked.result(0)
    assert [(0, 2), (0, 3)] == _blocked(group)
    assert since == _view(member).since
    _fails(group, "")
    member.parts.requests.submit(Retry(None))
    group.finish()
    assert [] == group.violations()


def test_what_can_never_be_handled_is_blocked_at_its_first_failure() -> None:
    """`on_permanent="block"`: and given up it is a dead letter, behind which its key goes on."""
    group, member = _group("aab", on_exhausted="dead-letter", on_permanent="block")
    group.dependency.refuses = {(0, 0)}
    _turn_for(group, _HOUR_S)
    assert ([(0, 1)], [0, 2]) == (_blocked(group), sorted(group.attempted()))
    assert [events.KeyBlocked, events.WaitingBehind] == [
        type(each) for each in member.events if getattr(each, "scope", None) is not None
    ]
    asked = member.parts.requests.submit(GiveUp((_P0, 0)))
    group.finish()
    assert asked.result(0)
    (letter,) = group.fake.topics[LETTERS].partitions[0].records
    assert (b"given-up", 1) == (dict(letter.headers or [])["retry-reason"], group.attempted()[-1])
    assert [] == group.violations()


@pytest.mark.parametrize("is_kill", [False, True], ids=["stop", "kill"])
def test_it_is_blocked_at_the_next_owner_too(is_kill: bool) -> None:
    """The note says so: it is not attempted there, until somebody says so."""
    group, member = _group("abab", strategy=[1.0])
    _fails(group, "a")
    _turn_for(group, 600.0)
    before = group.attempted()
    (group.crash if is_kill else group.leave)(member)
    heir = group.join()
    group.share([0])
    _fails(group, "")
    _turn_for(group, _HOUR_S)
    assert before == group.attempted()
    assert [(0, 2), (0, 2)] == _blocked(group)
    assert ("operator", 2) == (_view(heir).waits_for, _view(heir).failures)
    heir.parts.requests.submit(Retry(None))
    group.finish()
    assert [0, 2] == group.attempted()[len(before) :]
    assert [] == group.violations()


def test_a_revoke_amid_its_last_attempt() -> None:
    """What comes of it is still noted: the next owner does not attempt it."""
    group, member = _group("ab", strategy=[])
    _fails(group, "a")
    member.workers.late = {_P0}
    while not member.workers.running:
        group.turn()
    group.join()
    group.share([1])
    _turn_for(group, _HOUR_S)
    assert ([(0, 1), (0, 1)], [0, 1]) == (_blocked(group), sorted(group.attempted()))


@pytest.mark.parametrize("scope", ["key", "consumer"])
def test_an_owner_that_does_not_block_attempts_it(scope: str) -> None:
    """At once: nobody would retry it there."""
    group, member = _group("ab", strategy=[1.0])
    _fails(group, "a")
    _turn_for(group, 600.0)
    group.leave(member)
    _fails(group, "")
    group.on_exhausted, group.scope = "dead-letter", scope  # type: ignore[assignment]
    group.concurrency = 4 if scope == "key" else 1
    group.join()
    group.share([0])
    group.finish()
    assert (0, [(0, 2)]) == (group.attempted()[-1], _blocked(group))
    assert [] == group.violations()


def test_blocked_keys_are_not_among_those_that_may_be_held() -> None:
    """Else the wide circuit would be open until somebody came, and stop all the others."""
    group, member = _group(
        "abcd12", scope=ByKey(trip=9, most_held=2), on_permanent="block", strategy=[600.0] * 9
    )
    group.dependency.refuses = {(0, 0), (0, 1), (0, 2)}
    _fails(group, "d")
    group.turn(20)
    assert [(0, 1), (1, 1), (2, 1)] == sorted(_blocked(group))
    assert {4, 5} <= {*group.attempted()}
    opened = [each for each in member.events if isinstance(each, events.CircuitOpened)]
    assert [3] == [each.offset for each in opened if each.scope.key is not None]
    assert 1 == len(opened)


@pytest.mark.parametrize("choice", ["on_exhausted", "on_permanent"])
@pytest.mark.parametrize("scope", ["consumer", "topic", "partition"])
def test_more_than_a_key_is_never_blocked(choice: str, scope: str) -> None:
    """A partition that waits for a person is no better than a consumer that has stopped."""
    others: dict[str, Any] = {"on_exhausted": "repeat"}
    with pytest.raises(ConfigurationError, match=f"{choice}='block'.*for scope=\"key\" only"):
        _group("a", scope=scope, concurrency=1, **(others | {choice: "block"}))


@pytest.mark.parametrize(
    "choices",
    [
        {"on_exhausted": "block", "on_permanent": "block"},
        {"on_exhausted": "block", "on_permanent": "skip"},
        {"on_exhausted": "repeat", "on_permanent": "block"},
    ],
)
def test_no_dead_letter_topic_is_needed(choices: dict[str, Any]) -> None:
    """Nothing goes there by itself; without one nothing can be given up."""
    group = FakeGroup(partitions=1, scope="key", **choices)
    group.dead_letters = None  # type: ignore[assignment]
    assert group.join().parts.lanes is not None
