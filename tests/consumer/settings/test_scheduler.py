"""The carrier `Scheduler`: when a message comes back, and what becomes of it there."""

from typing import Any

import pytest

from linear_retry import ConfigurationError, RetryAfter, Scheduler, Strategy, events
from linear_retry.records.dead_letter import DeadLetter, parse
from linear_retry.records.lineage import Hop
from linear_retry.retry.decision import Left
from tests.consumer.group import LETTERS, TOPIC, FakeGroup
from tests.testing.violations import violations

_TOPIC = "billing.scheduled"
_NOW_MS = 1_767_225_600_000


def _hops(scheduler: Scheduler, at_least_s: float = 0, draw: float = 0.0) -> list[tuple[int, int]]:
    """Step and wait in ms of each hop of a message that always fails."""
    found: list[tuple[int, int]] = []
    hop: Hop | None = None
    while (hop := scheduler.next_hop(Left(_NOW_MS, _NOW_MS, hop), at_least_s, lambda: draw)) and (
        len(found) < 10
    ):
        assert (_TOPIC, scheduler.strategy.label) == (hop.topic, hop.strategy)
        found.append((hop.step, hop.retry_at_ms - _NOW_MS))
    return found


def test_each_delay_once() -> None:
    """In order, whatever their length, and then it is over."""
    scheduler = Scheduler(_TOPIC, strategy=["5m", "5m", "1d"])
    assert [(1, 300_000), (2, 300_000), (3, 86_400_000)] == _hops(scheduler)


def test_jitter_and_retry_after_lengthen() -> None:
    """Each record has a time of its own, so neither needs another topic."""
    jittered = Scheduler(_TOPIC, strategy=Strategy([10, 20], jitter=0.5))
    assert [(1, 12_500), (2, 25_000)] == _hops(jittered, draw=0.5)
    assert [(1, 15_500), (2, 25_000)] == _hops(jittered, at_least_s=15.5, draw=0.5)


def test_another_strategy_goes_on_with_its_number() -> None:
    """A changed strategy does not begin again, nor does a shorter one repeat its last delay."""
    old = Hop(TOPIC, 2, "older@123", 0)
    longer = Scheduler(_TOPIC, strategy=[1, 2, 3]).next_hop(Left(_NOW_MS, _NOW_MS, old), 0)
    assert longer is not None
    assert (3, _NOW_MS + 3000) == (longer.step, longer.retry_at_ms)
    assert None is Scheduler(_TOPIC, strategy=[1]).next_hop(Left(_NOW_MS, _NOW_MS, old), 0)


def test_no_wait_beyond_max_elapsed() -> None:
    """A wait that would end later than that after the first failure is not begun."""
    scheduler = Scheduler(_TOPIC, strategy=Strategy([10, 10], max_elapsed=15))
    assert scheduler.next_hop(Left(_NOW_MS, _NOW_MS - 5000), 0) is not None
    assert scheduler.next_hop(Left(_NOW_MS, _NOW_MS - 5001), 0) is None


@pytest.mark.parametrize(
    ("topic", "options", "says"),
    [
        ("no topic", {"strategy": [1]}, "Scheduler='no topic': the name of a topic"),
        (_TOPIC, {"strategy": []}, "it has no delays: no message would ever be retried"),
        (_TOPIC, {"strategy": [1], "limit": 0}, "limit=0"),
        (_TOPIC, {"strategy": [1], "hold": -1}, "hold"),
    ],
)
def test_what_cannot_work_is_refused(topic: str, options: dict[str, Any], says: str) -> None:
    """At construction, with the value."""
    with pytest.raises(ConfigurationError, match=says):
        Scheduler(topic, **options)


class _Service:
    """Does at once what the scheduler's service does in time: it returns each record."""

    def __init__(self, group: FakeGroup) -> None:
        self._fake = group.fake
        self._done = 0
        self.seen: list[DeadLetter] = []

    def forward(self) -> None:
        """Byte for byte to its destination, in its partition."""
        (log,) = self._fake.topics[_TOPIC].partitions
        for record in log.records[self._done :]:
            letter = parse(record.headers or [], record.key, record.value)
            self.seen.append(letter)
            self._fake.append(
                letter.destination,
                letter.original_partition,
                record.value,
                record.key,
                record.headers,
            )
        self._done = len(log.records)


def _group(*, transactional: bool = False, **options: Any) -> tuple[FakeGroup, _Service]:
    scheduler = Scheduler(_TOPIC, strategy=["5m", "1h"], **options)
    group = FakeGroup(
        partitions=1, strategy=(1,), on_exhausted=scheduler, transactional=transactional
    )
    group.fake.create_topic(_TOPIC)
    return group, _Service(group)


def _violations(group: FakeGroup) -> list[str]:
    """Every guarantee that does not hold, of those that retry topics have, too."""
    assert isinstance(group.on_exhausted, Scheduler)
    log = group.fake.topics[TOPIC].partitions[0]
    return violations(
        group.witness.entries,
        {(TOPIC, 0): [record.offset for record in log.records]},
        committed=group.fake.group(group.group_id),
        strategy_length=len(group.strategy),
        retry_strategy_length=0,
        letter_limit=None,
        alive_within_s=45.0,
        asked_at_s=group.fake.clock.now_s(),
        finished=True,
        retries=group.on_exhausted,
    )


@pytest.mark.parametrize("transactional", [False, True])
def test_one_attempt_for_each_return(transactional: bool) -> None:
    """The blocking strategy is not repeated: two attempts on the line, one after each of the two
    delays, then the dead letters, with one identity throughout."""
    group, service = _group(transactional=transactional)
    group.produce(0)
    group.dependency.down = True
    member = group.join()
    group.share([0])
    for _ in range(30):
        group.turn()
        service.forward()
    assert [1, 2] == [letter.step for letter in service.seen]
    assert ["retry", "retry"] == [letter.send_to for letter in service.seen]
    assert [(TOPIC, 0, 0)] * 2 == [
        (letter.destination, letter.original_partition, letter.original_offset)
        for letter in service.seen
    ]
    (record,) = group.fake.topics[LETTERS].partitions[0].records
    letter = parse(record.headers or [], record.key, record.value)
    assert ("exhausted", 2, 4) == (letter.reason, letter.step, letter.failures)
    assert 1 == len({letter.retry_id, *(each.retry_id for each in service.seen)})
    opened = [each for each in member.events if isinstance(each, events.CircuitOpened)]
    assert 1 == len(opened)
    assert [] == _violations(group)


def test_handled_when_it_returns() -> None:
    """Once the dependency is up again the message is done, and nothing is dead-lettered."""
    group, service = _group()
    group.produce(0)
    group.dependency.raises_once = [RetryAfter(7200), RetryAfter(1)]
    member = group.join()
    group.share([0])
    for _ in range(20):
        group.turn()
        service.forward()
    (sent,) = [each for each in member.events if isinstance(each, events.SentToRetry)]
    assert (_TOPIC, 1) == (sent.retry_topic, sent.step)
    assert [] == group.fake.topics[LETTERS].partitions[0].records
    assert {(TOPIC, 0): 2} == group.fake.group(group.group_id)


def test_the_limit_holds_the_next_one() -> None:
    """After `limit` messages in a row without a success the line stands still."""
    group, _ = _group(limit=2)
    group.produce(0, 5)
    group.dependency.down = True
    member = group.join()
    group.share([0])
    group.turn(30)
    assert 2 == len([each for each in member.events if isinstance(each, events.SentToRetry)])
    assert any(isinstance(each, events.LimitReached) for each in member.events)


def test_not_for_a_compacted_source() -> None:
    """A message that comes back would replace a newer one of its key."""
    group, _ = _group()
    group.fake.topics[TOPIC].cleanup_policy = "compact"
    with pytest.raises(ConfigurationError, match="orders is compacted"):
        group.join()


def test_its_topic_must_be_there() -> None:
    """A consumer that could send nothing there does not start."""
    group, _ = _group()
    group.fake.delete_topic(_TOPIC)
    with pytest.raises(ConfigurationError, match=_TOPIC):
        group.join()
