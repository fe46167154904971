"""What a topic may remove before it is handled is reported."""

from concurrent.futures import Future
from typing import Any

import pytest
from confluent_kafka import KafkaError, KafkaException

from linear_retry.consumer.operations.retention import RetentionCheck
from linear_retry.consumer.settings.by_key import ByKey
from linear_retry.events import HeldMessageAtRisk, RetentionTooShort, WaitingBehind
from linear_retry.kafka.topics.admin import Admin
from linear_retry.scope import Scope
from tests.consumer.group import TOPIC, FakeGroup
from tests.consumer.joined_parts import Joined

_TIMED_OUT = KafkaException(KafkaError(KafkaError._TIMED_OUT))
_HOUR_S = 3600.0


class _Admin(Admin):
    """Answers when a test says so."""

    def __init__(self) -> None:
        super().__init__({})
        self.asked: dict[str, Future[int]] = {}

    def ask_retention_ms(self, topic: str) -> Future[int]:
        return self.asked.setdefault(topic, Future())


def _check(total_s: float = 3600.0) -> tuple[Joined, _Admin, RetentionCheck]:
    joined, admin = Joined(), _Admin()
    check = RetentionCheck(admin, total_s, joined.emit)
    check.ask(["orders", "^refunds"])
    return joined, admin, check


@pytest.mark.parametrize(
    ("retention_ms", "warns"),
    [(3_599_999, True), (0, True), (3_600_000, False), (604_800_000, False), (-1, False)],
)
def test_a_strategy_that_outlives_its_topic_is_reported(retention_ms: int, warns: bool) -> None:
    """What waits behind a held message may be gone by then; -1 is for ever."""
    joined, admin, check = _check()
    admin.asked["orders"].set_result(retention_ms)
    check.tick()
    check.tick()
    expected = [RetentionTooShort("orders", retention_ms, 3600.0)] if warns else []
    assert expected == joined.happened


def test_an_answer_is_never_waited_for() -> None:
    """Not there yet, or an error: the consumer goes on, and looks again."""
    joined, admin, check = _check()
    check.tick()
    admin.asked["orders"].set_exception(_TIMED_OUT)
    check.tick()
    assert [] == joined.happened


def test_only_named_topics_are_asked_about_and_only_for_a_strategy_that_waits() -> None:
    """A pattern has no retention; no waits, no problem."""
    _, admin, _ = _check()
    assert {"orders"} == set(admin.asked)
    _, admin, _ = _check(total_s=0.0)
    assert {} == admin.asked


def _holding(retention_ms: int, **options: Any) -> FakeGroup:
    """A message is held, by a strategy that repeats its delay, in a topic with this retention."""
    group = FakeGroup(
        partitions=1, strategy=[_HOUR_S], on_exhausted="repeat", **{"scope": "key"} | options
    )
    group.fake.topics[TOPIC].retention_ms = retention_ms
    group.join()
    group.share([0])
    group.dependency.down_for_keys = {b"a"}
    group.produce_keys(0, [b"a", b"a"])
    return group


def _until(group: FakeGroup, hours: float) -> None:
    until_s = group.fake.clock.now_s() + hours * _HOUR_S
    while group.fake.clock.now_s() < until_s:
        group.turn()


def _at_risk(group: FakeGroup) -> list[HeldMessageAtRisk]:
    (member,) = group.members
    return [each for each in member.events if isinstance(each, HeldMessageAtRisk)]


def test_a_held_message_that_may_be_removed_is_reported_once() -> None:
    """At 80 % of the retention; others of its key wait behind it."""
    group = _holding(retention_ms=10 * 3_600_000)
    _until(group, 7.9)
    assert [] == _at_risk(group)
    _until(group, 0.2)
    (found,) = _at_risk(group)
    assert (TOPIC, 0, 0, 36_000_000) == (
        *(found.topic, found.partition, found.offset),
        found.retention_ms,
    )
    assert 0.8 * 10 * _HOUR_S <= found.age_s < 8.1 * _HOUR_S
    assert found.scope.key is not None
    _until(group, 1.5)
    assert 1 == len(_at_risk(group))


def test_what_waits_behind_a_held_message_is_reported() -> None:
    """Each minute in which it has changed, also where some of it was dropped from memory."""
    group = _holding(retention_ms=-1, scope=ByKey(most_bytes=200))
    (member,) = group.members
    for _ in range(3):
        group.produce_keys(0, [b"a", b"b"] * 20)
        _until(group, 0.05)
    told = [each for each in member.events if isinstance(each, WaitingBehind)]
    assert [21, 41, 61] == [each.messages for each in told]
    assert {(TOPIC, 0, 0)} == {each.place for each in told}
    group.dependency.down_for_keys = set()
    _until(group, 2)
    assert 3 == len([each for each in member.events if isinstance(each, WaitingBehind)])


def test_the_next_of_a_key_is_reported_by_itself() -> None:
    """It has waited as long, and is held now."""
    group = _holding(retention_ms=10 * 3_600_000)
    _until(group, 8.1)
    group.dependency.down_for_keys = set()
    group.dependency.refuses.clear()
    _until(group, 1)
    assert [0] == [each.offset for each in _at_risk(group)]
    group.produce_keys(0, [b"a"])
    group.dependency.down_for_keys = {b"a"}
    _until(group, 8.1)
    assert [0, 2] == [each.offset for each in _at_risk(group)]


def test_a_partition_that_waits_is_at_risk_too() -> None:
    """Whatever the scope: what is held may be removed."""
    group = _holding(retention_ms=3_600_000, scope="partition")
    _until(group, 1)
    (found,) = _at_risk(group)
    assert Scope(TOPIC, 0) == found.scope


@pytest.mark.parametrize("keeps", [{"retention_ms": -1}, {"cleanup_policy": "compact"}])
def test_what_is_kept_for_ever_is_not_at_risk(keeps: dict[str, Any]) -> None:
    """Nor what only a later message of its key would replace."""
    group = _holding(retention_ms=3_600_000)
    for name, value in keeps.items():
        setattr(group.fake.topics[TOPIC], name, value)
    _until(group, 2)
    assert [] == _at_risk(group)


def test_retention_that_is_raised_meanwhile_counts() -> None:
    """That is the remedy that the log names."""
    group = _holding(retention_ms=10 * 3_600_000)
    _until(group, 7.5)
    group.fake.topics[TOPIC].retention_ms = 100 * 3_600_000
    _until(group, 2)
    assert [] == _at_risk(group)
