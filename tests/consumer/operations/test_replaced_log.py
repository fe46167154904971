"""A log that is another than was read is noticed though librdkafka says nothing."""

from collections.abc import Sequence
from concurrent.futures import Future
from typing import TypeVar, cast

import pytest

from linear_retry import DataLossError, RetryTopics, events
from linear_retry.consumer.operations.health import HealthInputs, evaluate
from linear_retry.consumer.operations.replaced_log import ReplacedLogWatchdog
from linear_retry.kafka.topics.admin import Admin
from linear_retry.scope import Partition
from tests.consumer.group import GROUP, OTHER_TOPIC, TOPIC, FakeGroup, Protocol
from tests.consumer.joined_parts import Joined
from tests.consumer.misbehaviours.misbehaving import (
    P0,
    P1,
    all_protocols,
    begun,
    emitted,
    turn_until,
    until,
)

_T = TypeVar("_T")


def _read(protocol: Protocol, **options: object) -> FakeGroup:
    """A member that has handled ten messages in each of two partitions, at rest for a while."""
    group = FakeGroup(protocol=protocol, partitions=2, **options)  # type: ignore[arg-type]
    group.fake.group(GROUP).update({P0: 0, P1: 0})
    for _, number in group.partitions:
        group.produce(number, 10)
    group.join()
    group.share([0, 0])
    group.finish()
    group.turn(40)
    return group


def _handled(group: FakeGroup, partition: Partition) -> list[int]:
    return [place.offset for _, place in begun(group) if place[:2] == partition]


def _committed(group: FakeGroup, **at: int) -> bool:
    committed = group.fake.group(GROUP)
    return all(committed.get((TOPIC, int(number[1:]))) == end for number, end in at.items())


@all_protocols
def test_a_topic_that_is_created_again_is_read(protocol: Protocol) -> None:
    """The bug: with leader epochs above 0 librdkafka reads nothing of it, and says nothing.

    A new client does. The loss is told, and nothing of the new topic is passed over.
    """
    group = _read(protocol)
    (member,) = group.members
    group.fake.recreate_topic(TOPIC)
    for _ in range(3):
        group.fake.append(TOPIC, 0)
    turn_until(group, member, events.ClientReplaced)
    group.share([0, 0])
    until(group, lambda: _committed(group, p0=3))
    lost = [events.DataLost(*key, offset=10, next_offset=0) for key in (P0, P1)]
    assert lost == emitted(member, events.DataLost)
    assert [*range(10), *range(3)] == _handled(group, P0)
    assert list(range(10)) == _handled(group, P1)
    group.turn(40)
    assert 1 == len(emitted(member, events.ClientReplaced))


def test_it_is_known_from_the_assignment_on_which_topic_is_read() -> None:
    """The bug: a topic that was created again in the first 10 s counted as the one assigned."""
    group = FakeGroup(protocol="cooperative", partitions=1)
    member = group.join()
    group.turn(5)
    group.produce(0, 1)
    group.share([0])
    until(group, group.all_done)
    group.fake.recreate_topic(TOPIC)
    turn_until(group, member, events.ClientReplaced)


def test_a_retry_topic_that_is_created_again_is_read_from_its_first_message() -> None:
    """The bug: while both lines ran, the first retries after that were never attempted."""
    retries = RetryTopics("orders.retry", strategy=[1])
    group = FakeGroup(partitions=1, reads=retries)
    (topic,) = retries.topics
    member = group.join()
    group.share([0])
    group.produce((topic, 0), 3)
    until(group, group.all_done)
    group.fake.recreate_topic(topic)
    for _ in range(5):
        group.fake.append(topic, 0)
    turn_until(group, member, events.ClientReplaced)
    group.share([0])
    until(group, lambda: 5 == group.fake.group(group.group_id).get((topic, 0)))
    # They have no headers of a retry, so that their attempt is a dead letter.
    ends = [event.offset for event in emitted(member, events.DeadLettered)]
    assert [*range(3), *range(5)] == ends
    assert [events.DataLost(topic, 0, 3, 0)] == emitted(member, events.DataLost)


def test_what_was_committed_of_an_earlier_topic_does_not_count() -> None:
    """A message that was held is handled, and its offset committed before the new topic is noticed:
    a new client would begin there, and pass over what is before."""
    group = _read("cooperative")
    (member,) = group.members
    group.dependency.down = True
    group.produce(0, 1)
    turn_until(group, member, events.CircuitOpened)
    group.fake.recreate_topic(TOPIC)
    for _ in range(20):
        group.fake.append(TOPIC, 0)
    group.dependency.down = False
    until(group, lambda: _committed(group, p0=11))
    turn_until(group, member, events.ClientReplaced)
    group.share([0, 0])
    until(group, lambda: _committed(group, p0=20))
    assert list(range(20)) == _handled(group, P0)[-20:]


def test_topics_that_are_created_again_at_once_are_begun_together() -> None:
    """The bug: for the first one the client was replaced, and the new one began the other behind an
    offset of its earlier topic: what was before it was passed over, and no loss was told."""
    topics = (TOPIC, OTHER_TOPIC)
    group = FakeGroup(protocol="cooperative", topics=topics, partitions=1)
    group.fake.group(GROUP).update(dict.fromkeys(group.partitions, 0))
    for key in group.partitions:
        group.produce(key, 10)
    member = group.join()
    group.share([0, 0])
    group.finish()
    group.turn(40)
    group.dependency.down = True
    group.produce((OTHER_TOPIC, 0), 1)
    turn_until(group, member, events.CircuitOpened)
    for topic in topics:
        group.fake.recreate_topic(topic)
        for _ in range(20):
            group.fake.append(topic, 0)
    group.dependency.down = False
    until(group, lambda: 11 == group.fake.group(GROUP).get((OTHER_TOPIC, 0)))
    turn_until(group, member, events.ClientReplaced)
    group.share([0, 0])
    until(group, lambda: group.fake.group(GROUP) == dict.fromkeys(group.partitions, 20))
    for key in group.partitions:
        assert list(range(20)) == _handled(group, key)[-20:]
    lost = [events.DataLost(TOPIC, 0, 10, 0), events.DataLost(OTHER_TOPIC, 0, 11, 0)]
    assert lost == emitted(member, events.DataLost)
    group.turn(40)
    assert 1 == len(emitted(member, events.ClientReplaced))


def test_a_partition_without_a_leader_holds_up_no_other() -> None:
    """The bug: while the broker of one new partition was away, none of them was read, untold."""
    group = _read("cooperative")
    (member,) = group.members
    group.fake.faults.leaderless = frozenset({P1})
    group.fake.recreate_topic(TOPIC)
    for number in (0, 0, 0, 1):
        group.fake.append(TOPIC, number)
    turn_until(group, member, events.ClientReplaced)
    group.share([0, 0])
    until(group, lambda: _committed(group, p0=3, p1=1))
    assert [*range(10), *range(3)] == _handled(group, P0)
    assert [*range(10), 0] == _handled(group, P1)


@all_protocols
@pytest.mark.parametrize("is_fenced", [True, False])
def test_it_is_assigned_again_behind_an_offset_of_the_earlier_topic(
    protocol: Protocol, is_fenced: bool
) -> None:
    """The bug: assigned anew, as brokers do by themselves where the group is of KIP-848, it counted
    as the new topic; but the revocation had committed an offset of the earlier one."""
    group = _read(protocol)
    (member,) = group.members
    group.dependency.down = True
    group.produce(0, 1)
    turn_until(group, member, events.CircuitOpened)
    group.fake.recreate_topic(TOPIC)
    for log in group.fake.topics[TOPIC].partitions:
        log.is_fenced = is_fenced
    for _ in range(20):
        group.fake.append(TOPIC, 0)
    group.dependency.down = False
    turn_until(group, member, events.CircuitClosed)
    group.fake.revoke(member.consumer)
    group.turn()
    assert _committed(group, p0=11)
    group.share([0, 0])
    turn_until(group, member, events.ClientReplaced)
    group.share([0, 0])
    until(group, lambda: _committed(group, p0=20))
    assert list(range(20)) == _handled(group, P0)[-20:]
    assert 1 == len(emitted(member, events.DataLost))


@all_protocols
def test_a_new_topic_that_is_read_from_its_first_message_goes_on(protocol: Protocol) -> None:
    """Revoked and assigned again, it began without a committed offset: nothing is read twice."""
    group = _read(protocol)
    (member,) = group.members
    group.fake.revoke(member.consumer)
    group.turn()
    group.fake.recreate_topic(TOPIC)
    for log in group.fake.topics[TOPIC].partitions:
        log.is_fenced = False
    for _ in range(20):
        group.fake.append(TOPIC, 0)
    group.share([0, 0])
    until(group, lambda: _committed(group, p0=20))
    group.turn(40)
    assert [*range(10), *range(20)] == _handled(group, P0)
    assert [] == emitted(member, events.DataLost) + emitted(member, events.ClientReplaced)


def test_a_commit_of_the_earlier_topic_is_awaited() -> None:
    """librdkafka may retry it: answered last, it would undo that of where the new topic begins."""
    joined, admin, replaced = Joined(), _Admin(), list[str]()
    joined.own(P0, done=10)
    watchdog = ReplacedLogWatchdog(
        joined.client,
        joined.assignment,
        joined.offsets,
        cast("Admin", admin),
        joined.offset_reset(),
        replaced.append,
        joined.emit,
    )

    def tick() -> None:
        joined.clock.advance(11)
        watchdog.tick()

    tick()
    tick()
    admin.id = "another"
    for _ in range(3):
        tick()
    joined.client.commit({P0: 10})
    tick()
    assert [] == replaced
    joined.acknowledge()
    tick()
    commits = [given for name, given in joined.librdkafka.calls if name == "commit"]
    assert [([(*P0, 10)], True), ([(*P0, 0)], False)] == commits
    assert 1 == len(replaced)


class _Admin:
    """Answers at once: each log begins at 0 and ends at 20, in a topic with this id."""

    def __init__(self) -> None:
        self.id = "first"

    def ask_ids(self, topics: Sequence[str]) -> dict[str, Future[str]]:
        return {topic: _answered(self.id) for topic in topics}

    def ask_beginnings(self, partitions: Sequence[Partition]) -> dict[Partition, Future[int]]:
        return {key: _answered(0) for key in partitions}

    def ask_ends(
        self, partitions: Sequence[Partition], *, committed: bool
    ) -> dict[Partition, Future[int]]:
        return {key: _answered(20) for key in partitions}


def _answered(answer: _T) -> Future[_T]:
    future: Future[_T] = Future()
    future.set_result(answer)
    return future


def test_the_log_of_a_paused_partition_is_cut() -> None:
    """The bug: after the outage it was read on behind the held message, and what had come at the
    offsets before was passed over. It is told while it is held, in log, lag and health."""
    group = _read("cooperative", strategy=(60,), on_exhausted="repeat")
    (member,) = group.members
    group.dependency.down = True
    group.produce(0, 1)
    turn_until(group, member, events.CircuitOpened)
    group.fake.truncate(TOPIC, 0, 5)
    turn_until(group, member, events.DataLost)
    assert {P0: 10} == member.parts.replaced_logs.short
    for _ in range(30):
        group.fake.append(TOPIC, 0)
    group.dependency.down = False
    until(group, lambda: _committed(group, p0=35))
    assert [*range(10), *range(35)] == _handled(group, P0)[:10] + _handled(group, P0)[-35:]
    assert [events.DataLost(*P0, offset=10, next_offset=0)] == emitted(member, events.DataLost)
    group.turn(40)
    assert {} == member.parts.replaced_logs.short


@pytest.mark.parametrize("loss", ["cut", "another topic"])
def test_with_error_it_ends_the_run(loss: str) -> None:
    """Whoever chose `error` decides where it is read on."""
    group = _read("cooperative", config={"auto.offset.reset": "error"})
    if loss == "cut":
        group.fake.truncate(TOPIC, 0, 5)
    else:
        group.fake.recreate_topic(TOPIC)
    with pytest.raises(DataLossError, match=r"orders\[0\]@10"):
        group.turn(1000)


def test_an_idle_consumer_loses_nothing() -> None:
    """Ends at what was read, behind markers, and an id that stays are no trouble."""
    group = _read("eager")
    (member,) = group.members
    for log in group.fake.topics[TOPIC].partitions:
        log.mark(1)
    group.turn(200)
    assert [] == emitted(member, events.DataLost) + emitted(member, events.ClientReplaced)


@pytest.mark.parametrize(("others", "more"), [(0, ""), (2, ", as do 2 other partitions")])
def test_health_names_it(others: int, more: str) -> None:
    """Whatever the state is: a circuit of another scope may be open."""
    inputs = HealthInputs(
        utc_ms=0,
        limit_s=300.0,
        polled_s=0.0,
        handed_out=None,
        joined=True,
        stopping=False,
        end=None,
        circuits={},
        short={(TOPIC, number): 100 for number in range(1 + others)},
    )
    health = evaluate(inputs)
    assert f"orders[0] was read up to offset 100, and ends before it{more}: the" in health.reason
    assert health.error is not None


@pytest.mark.parametrize("loss", ["cut", "another topic"])
def test_who_keeps_the_offsets_elsewhere_is_not_read_on(loss: str) -> None:
    """The scheduler's intake, whose store is up to an offset that the log does not have: read on,
    it would take messages for those that it has. The run ends, and says why."""
    stored: dict[Partition, int] = {P0: 10, P1: 10}
    group = _read(
        "cooperative",
        start_positions=lambda new: {key: stored[key] for key in new},
        config={"auto.offset.reset": "error"},
    )
    if loss == "cut":
        group.fake.truncate(TOPIC, 0, 5)
    else:
        group.fake.recreate_topic(TOPIC)
    with pytest.raises(DataLossError, match=r"orders\[0\]@10: reading must start there"):
        group.turn(1000)
